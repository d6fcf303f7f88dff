#include "partita/plan/hogbatch/batch_controller.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace partita {

namespace {

constexpr std::int64_t round_batches = 16; ///< of each worker

void checkRules(const BatchRules& rules) {
  if (!(rules.factor > 1.0)) throw std::logic_error("sizes of batches change by a factor above 1");
  if (!(rules.beta > 0.0) || rules.beta > 1.0) throw std::logic_error("beta is above 0 and at most 1");
  if (rules.batch < 0) throw std::logic_error("a negative number of examples");
}

void checkGroup(const WorkerGroup& group) {
  if (group.workers < 1) throw std::logic_error("a group without workers");
  if (group.lower < 1 || group.start < group.lower || group.upper < group.start)
    throw std::logic_error("sizes of batches need 1 <= lower <= start <= upper");
}

/// The fastest batch shows the speed of a worker: in others it may have been halted, even for hours if the
/// batch system suspended the job.
void keepFastest(GroupState& state, const EndedBatch& ended) {
  const auto examples = static_cast<double>(ended.examples);
  const bool first = !(state.timed_seconds > 0.0);
  if (!first && ended.seconds * state.timed_examples >= state.timed_seconds * examples) return;
  state.timed_examples = examples;
  state.timed_seconds = ended.seconds;
}

} // namespace

BatchController::BatchController(const BatchRules& rules, const std::vector<WorkerGroup>& groups)
    : _rules(rules), _groups(groups), _states(groups.size()) {
  if (groups.empty()) throw std::logic_error("no workers");
  checkRules(rules);
  std::int64_t first_batches = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    checkGroup(groups[i]);
    _states[i].size = groups[i].start;
    _states[i].workers = groups[i].workers;
    first_batches += groups[i].start * groups[i].workers;
  }
  _round = static_cast<double>(round_batches * first_batches);
  if (_rules.batch == 0) _rules.batch = first_batches;
  if (_rules.rule == WorkerRule::synchronous) setSpeeds(std::vector<double>(groups.size(), 1.0));
}

void BatchController::finished(std::size_t group, const EndedBatch& ended) {
  GroupState& state = _states.at(group);
  const double weighted = ended.applied ? _rules.weight(_groups[group].role) : 0.0;
  state.updates += weighted;
  keepFastest(state, ended);
  if (countsLaps()) {
    countInLap(group, weighted, ended.wanted == state.size);
  } else if (_rules.rule == WorkerRule::proportional) {
    state.round_updates += weighted;
    state.round_examples += static_cast<double>(ended.examples);
  }
  if (ended.more) return;
  if (++state.ended < state.workers) return; // other workers of the group have not ended theirs
  state.ended = 0;
  if (countsLaps()) return endLap(group);
  if (_rules.rule == WorkerRule::adaptive) adapt(group);
  if (_rules.rule == WorkerRule::proportional) endRound();
}

void BatchController::lose(std::size_t group) {
  GroupState& state = _states.at(group);
  state.workers = std::max<std::int64_t>(0, state.workers - 1);
  state.ended = std::max<std::int64_t>(0, std::min(state.ended, state.workers - 1));
}

double BatchController::share(std::size_t group) const {
  double sum = 0.0;
  for (const GroupState& state : _states) sum += state.updates;
  return sum > 0.0 ? _states.at(group).updates / sum : 0.0;
}

std::int64_t BatchController::clamped(std::size_t group, std::int64_t size) const {
  return std::max(_groups[group].lower, std::min(size, _groups[group].upper));
}

std::int64_t BatchController::smaller(std::size_t group) const {
  const std::int64_t size = _states[group].size;
  const auto wanted = static_cast<std::int64_t>(static_cast<double>(size) / _rules.factor);
  return clamped(group, std::min(size - 1, wanted));
}

std::int64_t BatchController::larger(std::size_t group) const {
  const auto size = static_cast<double>(_states[group].size),
             upper = static_cast<double>(_groups[group].upper);
  const double wanted = std::min(std::max(size + 1.0, size * _rules.factor), upper);
  return clamped(group, static_cast<std::int64_t>(wanted));
}

/// The published rule: a group that is ahead of all others gets larger batches, hence fewer updates; one that
/// is behind gets smaller ones.
void BatchController::adapt(std::size_t group) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (std::size_t other = 0; other < _states.size(); ++other) {
    if (other == group || !isActive(other)) continue;
    least = std::min(least, _states[other].updates);
    most = std::max(most, _states[other].updates);
  }
  if (most < least) return; // alone
  GroupState& state = _states[group];
  if (state.updates < least) {
    state.size = smaller(group);
  } else if (state.updates > most) {
    state.size = larger(group);
  }
}

/// Groups with more than their share of the updates get larger batches, those with less get smaller ones.
void BatchController::endRound() {
  double examples = 0.0, updates = 0.0, active = 0.0;
  for (std::size_t i = 0; i < _states.size(); ++i) {
    examples += _states[i].round_examples;
    if (!isActive(i)) continue;
    updates += _states[i].round_updates;
    active += 1.0;
  }
  if (examples < _round || !(updates > 0.0)) return;
  for (std::size_t i = 0; i < _states.size(); ++i) {
    GroupState& state = _states[i];
    const std::int64_t step = _groups[i].lower;
    const double weight = isActive(i) ? active * state.round_updates / updates : 0.0;
    if (weight > 1.0) state.size = clamped(i, state.size + step);
    if (weight < 1.0) state.size = clamped(i, state.size - step);
    state.round_updates = state.round_examples = 0.0;
  }
}

std::vector<std::int64_t> BatchController::split(std::int64_t examples) const {
  std::vector<double> weights;
  std::vector<std::int64_t> none, all;
  for (std::size_t i = 0; i < _states.size(); ++i) {
    weights.push_back(isActive(i) ? static_cast<double>(_states[i].size) : 0.0);
    none.push_back(0);
    all.push_back(isActive(i) ? examples : 0);
  }
  return proportionalSplit(examples, weights, none, all);
}

void BatchController::setSpeeds(const std::vector<double>& speeds) {
  if (speeds.size() != _states.size()) throw std::logic_error("speeds of other workers");
  std::vector<std::int64_t> lower, upper;
  for (std::size_t i = 0; i < _states.size(); ++i) {
    lower.push_back(isActive(i) ? _groups[i].lower : 0);
    upper.push_back(isActive(i) ? _groups[i].upper : 0);
  }
  const std::vector<std::int64_t> parts = proportionalSplit(_rules.batch, speeds, lower, upper);
  for (std::size_t i = 0; i < _states.size(); ++i) _states[i].size = parts[i];
}

void BatchController::resplit() {
  std::vector<double> speeds;
  for (std::size_t i = 0; i < _states.size(); ++i) {
    const GroupState& state = _states[i];
    const bool timed = state.timed_examples > 0.0 && state.timed_seconds > 0.0;
    if (isActive(i) && !timed) return;
    speeds.push_back(isActive(i) ? state.timed_examples / state.timed_seconds : 0.0);
  }
  setSpeeds(speeds);
}

void BatchController::forgetTimes() {
  for (GroupState& state : _states) state.timed_examples = state.timed_seconds = 0.0;
}

void BatchController::restore(const std::vector<GroupState>& states) {
  if (states.size() != _states.size()) throw std::logic_error("the state of other workers");
  for (std::size_t i = 0; i < _states.size(); ++i) {
    const std::int64_t workers = std::exchange(_states[i], states[i]).workers; // of this run
    _states[i].workers = workers;
    _states[i].ended = std::max<std::int64_t>(0, std::min(states[i].ended, workers - 1));
  }
  if (_rules.rule == WorkerRule::synchronous) {
    std::vector<double> sizes;
    sizes.reserve(states.size());
    for (const GroupState& state : states) sizes.push_back(static_cast<double>(state.size));
    setSpeeds(sizes); // the step may have another length
  } else {
    for (std::size_t i = 0; i < _states.size(); ++i) _states[i].size = clamped(i, states[i].size);
  }
  for (std::size_t i = 0; i < _states.size(); ++i)
    if (_states[i].size != states[i].size || countsOfAnotherRule(states[i])) return compareAnew();
}

/// Only `proportional` counts examples since the last change, and only bounded growth counts laps.
bool BatchController::countsOfAnotherRule(const GroupState& before) const {
  const bool of_rounds = before.round_examples > 0.0,
             of_laps = before.round_batches > 0.0 || before.lap_updates > 0.0 || before.lap_batches > 0;
  return (of_rounds && _rules.rule != WorkerRule::proportional) || (of_laps && !countsLaps());
}

} // namespace partita
