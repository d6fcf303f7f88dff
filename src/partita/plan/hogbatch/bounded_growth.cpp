#include "partita/plan/hogbatch/batch_controller.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace partita {

/// Adaptive batches with bounded growth. Equal workers take turns to lead, and a worker that has just waited
/// for a core is behind. Sizes therefore change only if the numbers of updates differ by more than chance
/// explains. Updates are counted in laps, in each of which every group ends a batch.

namespace {

/// A single lap can show at most this ratio, so that one long wait never changes a size.
constexpr double most_in_lap = 8.0;
/// Standard deviations of the logarithm of the ratio of two groups, if the time of a batch varied as much as
/// that between random events.
constexpr double deviations = 2.5;
/// Batches of a group after which older ones count half.
constexpr double memory = 1000.0;

/// Among the pairs of several groups, one differs by chance as rarely as a single pair does by `deviations`:
/// the tail of a normal distribution falls as exp(-d^2 / 2).
double deviationsOf(double groups) {
  return std::sqrt(deviations * deviations + 2.0 * std::log(std::max(1.0, 0.5 * groups * (groups - 1.0))));
}

} // namespace

/// `has_size`: the batch has the present size. Until the first one of a new size ends, workers still compute
/// batches that they got in advance, which say nothing about the new size.
void BatchController::countInLap(std::size_t group, double updates, bool has_size) {
  GroupState& state = _states[group];
  if (state.resized != 0 && !has_size) return compareAnew();
  state.resized = 0;
  state.lap_updates += updates;
}

/// The group has ended a batch; perhaps it is the last one to do so in this lap. At most one size changes. If
/// one group may grow and another may shrink, growing comes first: otherwise all would end at their lower
/// bounds after enough changes by mistake.
void BatchController::endLap(std::size_t group) {
  if (_states[group].resized != 0) return;
  ++_states[group].lap_batches;
  if (!allEndedBatches()) return;
  addLap();
  const std::vector<Standing> standings = compareGroups();
  for (std::size_t i = 0; i < _states.size(); ++i)
    if (standings[i].first() && mayGrow(i, larger(i), standings) && resize(i, larger(i))) return;
  for (std::size_t i = 0; i < _states.size(); ++i)
    if (standings[i].last() && resize(i, smaller(i))) return;
}

bool BatchController::allEndedBatches() const {
  return std::all_of(_states.begin(), _states.end(),
                     [](const GroupState& state) { return state.workers == 0 || state.lap_batches > 0; });
}

void BatchController::addLap() {
  double least = std::numeric_limits<double>::infinity(), longest = 0.0;
  for (const GroupState& state : _states)
    if (state.workers > 0) least = std::min(least, state.lap_updates);
  for (GroupState& state : _states) {
    state.round_updates += std::min(state.lap_updates, most_in_lap * std::max(least, 1.0));
    state.round_batches += std::min(static_cast<double>(state.lap_batches), most_in_lap);
    state.lap_updates = 0.0;
    state.lap_batches = 0;
    longest = std::max(longest, state.round_batches);
  }
  if (longest <= memory) return;
  for (GroupState& state : _states) {
    state.round_updates *= 0.5;
    state.round_batches *= 0.5;
  }
}

/// Forgets what all groups have done since the last change, but not their updates in the run.
void BatchController::compareAnew() {
  for (GroupState& state : _states) {
    state.round_updates = state.round_examples = state.round_batches = state.lap_updates = 0.0;
    state.lap_batches = 0;
  }
}

/// Compares all groups. n batches at random times have a standard deviation of sqrt(n), and the logarithm of
/// n that of 1 / sqrt(n). Half an update more for each group keeps it finite if all of its updates were
/// dropped.
std::vector<BatchController::Standing> BatchController::compareGroups() const {
  std::vector<std::size_t> active;
  std::vector<double> logarithms, variances;
  for (std::size_t i = 0; i < _states.size(); ++i) {
    if (!isActive(i)) continue;
    active.push_back(i);
    logarithms.push_back(std::log(_states[i].round_updates + 0.5));
    variances.push_back(1.0 / _states[i].round_batches);
  }
  const double limit = deviationsOf(static_cast<double>(active.size()));
  std::vector<Standing> standings(_states.size());
  for (std::size_t a = 0; a < active.size(); ++a)
    for (std::size_t b = 0; b < active.size(); ++b) {
      const double lead = logarithms[a] - logarithms[b];
      if (lead <= 0.0 || lead * lead <= limit * limit * (variances[a] + variances[b])) continue;
      standings[active[a]].ahead = standings[active[b]].behind = true;
    }
  return standings;
}

/// All batches together stay at most as large as the first ones, unless a group that is ahead of none is at
/// its lower bound: then others that are behind would only come ahead of it by shrinking.
bool BatchController::mayGrow(std::size_t group, std::int64_t size,
                              const std::vector<Standing>& standings) const {
  std::int64_t first = 0, next = 0;
  bool last_is_smallest = false;
  for (std::size_t i = 0; i < _states.size(); ++i) {
    if (!isActive(i)) continue;
    first += _groups[i].start * _states[i].workers;
    next += (i == group ? size : _states[i].size) * _states[i].workers;
    last_is_smallest =
        last_is_smallest || (i != group && _states[i].size == _groups[i].lower && !standings[i].ahead);
  }
  return next <= first || last_is_smallest;
}

/// Returns false if the group has that size already.
bool BatchController::resize(std::size_t group, std::int64_t size) {
  if (_states[group].size == size) return false;
  _states[group].size = size;
  _states[group].resized = 1;
  compareAnew();
  return true;
}

} // namespace partita
