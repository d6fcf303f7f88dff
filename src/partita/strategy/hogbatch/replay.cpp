#include "partita/strategy/hogbatch/replay.hpp"

#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace partita {

namespace {

/// No sample changes the model twice in an epoch, and no batch twice at all.
void requireOnce(const std::vector<Decision>& updates, const std::string& path) {
  std::vector<const Decision*> sorted;
  sorted.reserve(updates.size());
  for (const Decision& one : updates) sorted.push_back(&one);
  const auto check = [&](const auto& key, const auto& repeats) {
    std::sort(sorted.begin(), sorted.end(),
              [&](const Decision* a, const Decision* b) { return key(*a) < key(*b); });
    for (std::size_t i = 1; i < sorted.size(); ++i)
      if (repeats(*sorted[i - 1], *sorted[i]))
        throw UserError(path + ": update " + std::to_string(sorted[i]->applied) +
                        " repeats a batch or samples of update " + std::to_string(sorted[i - 1]->applied));
  };
  check([](const Decision& one) { return one.number; },
        [](const Decision& a, const Decision& b) { return a.number == b.number; });
  check(
      [](const Decision& one) { return std::pair(one.epoch, one.first); },
      [](const Decision& a, const Decision& b) { return a.epoch == b.epoch && b.first < a.first + a.count; });
}

std::vector<Decision> updatesOf(const std::vector<Decision>& all, const std::string& path,
                                std::int64_t samples) {
  std::vector<Decision> updates;
  std::copy_if(all.begin(), all.end(), std::back_inserter(updates),
               [](const Decision& decision) { return decision.applied >= 0; });
  std::sort(updates.begin(), updates.end(),
            [](const Decision& a, const Decision& b) { return a.applied < b.applied; });
  requireOnce(updates, path);
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const Decision& d = updates[i];
    if (d.applied != static_cast<std::int64_t>(i) || d.read > d.applied)
      throw UserError(path + ": update " + std::to_string(i) + " is out of order");
    if (d.count > samples || d.first > samples - d.count)
      throw UserError(path + ": names samples from " + std::to_string(d.first) +
                      " on, past the end of an epoch of " + std::to_string(samples) +
                      "; is the log from a run on other data?");
  }
  return updates;
}

/// Rows have the order in which results arrived, so a log that ends early may lack an update although it has
/// later ones. These cannot be repeated, and what follows the first of them is left out.
void leaveOutAfterGap(std::vector<Decision>& all, const std::string& path) {
  std::vector<std::int64_t> applied;
  applied.reserve(all.size());
  for (const Decision& one : all) applied.push_back(one.applied);
  std::sort(applied.begin(), applied.end());
  std::int64_t next = 0; // the first update that is not there
  for (const std::int64_t update : applied)
    if (update == next) ++next;
  const auto later = [next](const Decision& decision) { return decision.applied > next; };
  const auto first = std::find_if(all.begin(), all.end(), later);
  // Those that made no update have no number that shows their place.
  const auto end = std::remove_if(
      first, all.end(), [&](const Decision& decision) { return later(decision) || decision.applied < 0; });
  if (end == all.end()) return;
  Log::warning(path + ": update " + std::to_string(next) + " is missing; " + counted(all.end() - end, "row") +
               " after it left out");
  all.erase(end, all.end());
}

/// A log that ends before or after the deck would give another network than its run. Steps count up to the
/// furthest sample.
void requireWhole(const std::vector<Decision>& all, const std::string& path, const SampleProgress& progress,
                  std::int64_t steps) {
  std::int64_t epoch = 0, done = 0, samples = 0;
  for (const Decision& decision : all) {
    samples += decision.count;
    if (decision.epoch > epoch) done = 0;
    epoch = std::max(epoch, decision.epoch);
    if (decision.epoch == epoch) done = std::max(done, decision.first + decision.count);
  }
  const std::int64_t found = progress.step(epoch, done);
  if (found == 0) throw UserError(path + ": has no full step, but the deck has " + std::to_string(steps));
  if (found != steps)
    throw UserError(path + ": has " + counted(found, "step") + ", but the deck has " + std::to_string(steps) +
                    "; run/steps=" + std::to_string(found) + " repeats what the log has");
  const std::int64_t missing = epoch * progress.samples() + done - samples;
  if (missing > 0)
    Log::warning(
        path + ": " + counted(missing, "sample") +
        " before its last step have no update in it; the replay repeats the updates that the log has");
}

} // namespace

std::vector<Decision> readUpdates(const RunConfig& config, const SampleProgress& progress) {
  const std::string& path = config.strategy.hogbatch.replay;
  std::vector<Decision> all = readDecisions(path);
  leaveOutAfterGap(all, path);
  std::vector<Decision> updates = updatesOf(all, path, progress.samples());
  requireWhole(all, path, progress, progress.steps());
  return updates;
}

HogbatchReplay::HogbatchReplay(const RunContext& context)
    : _context(context), _stage(context.stages.front()->stage),
      _progress(context.config, context.length, static_cast<std::int64_t>(context.sets.train.size())),
      _evaluator(_context, context.length.steps), _work(_context, 1),
      _decisions(readUpdates(context.config, _progress)) {
  for (std::size_t i = 0; i < _decisions.size(); ++i) _unread.emplace(_decisions[i].read, i);
}

void HogbatchReplay::computeGradients(const ExecSpace& space, std::int64_t version) {
  const auto [begin, end] = _unread.equal_range(version);
  for (auto entry = begin; entry != end; ++entry) {
    const Decision& decision = _decisions[entry->second];
    WorkOrder order;
    order.number = decision.number;
    order.epoch = decision.epoch;
    order.first = decision.first;
    order.count = decision.count;
    order.row = decision.row;
    order.total = decision.total;
    if (!isFinite(_work.compute(space, order))) failDiverged(order);
    _pending[decision.number] = {StoredVector(_stage.gradients()).values(space),
                                 _stage.masters().values(space)};
  }
  _unread.erase(begin, end);
}

void HogbatchReplay::change(const ExecSpace& space, const Decision& decision) {
  const auto found = _pending.find(decision.number);
  PARTITA_REQUIRE(found != _pending.end(), "an update without a gradient");
  ModelChange change = changeOf(_context.config, decision.in_place);
  change.gradient = found->second.gradient.data();
  change.parameters = found->second.parameters.data();
  change.rate = decision.rate;
  change.decay = decision.decay;
  if (device_is_host) {
    changeModel(change, change.rate, _stage.parameters().data(), _stage.masters().size());
  } else {
    std::vector<Real> values = _stage.masters().values(space);
    changeModel(change, change.rate, values.data(), _stage.masters().size());
    _stage.setParameters(space, values.data());
  }
  _pending.erase(found);
}

/// Returns whether the run ends here.
bool HogbatchReplay::endEpoch(const ExecSpace& space, std::int64_t epoch, std::int64_t done) {
  const Position at{RunPhase::training, 0, _progress.step(epoch, done)};
  _evaluator.afterStep(space, at, 1, 1);
  return _context.control.afterStep(space, at, {});
}

bool HogbatchReplay::run(const ExecSpace& space) {
  if (_context.start.step > 0)
    throw UserError("--replay: repeats a run from its beginning, not from a checkpoint");
  _context.clock.start();
  bool ended = false;
  std::int64_t epoch = 0;
  for (std::size_t i = 0; i < _decisions.size() && !ended; ++i) {
    const Decision& decision = _decisions[i];
    if (decision.epoch > epoch) { // a late change may follow changes of the next epoch
      ended = endEpoch(space, epoch, _progress.samples());
      epoch = decision.epoch;
    }
    alive();
    computeGradients(space, static_cast<std::int64_t>(i));
    change(space, decision);
  }
  if (!ended && !_decisions.empty()) ended = endEpoch(space, epoch, _progress.end(epoch));
  _context.clock.stop();
  return !ended;
}

} // namespace partita
