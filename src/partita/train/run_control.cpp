#include "partita/train/run_control.hpp"

#include "partita/core/log.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/train/signals.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace partita {

namespace {

constexpr double between_checks = TimeReserve::shortest_gap; // s: of the time limit and of the directory

const auto program_start = Clock::now();

const char* reasonOf(std::int64_t code) {
  static const char* const reasons[] = {"", "the time limit is near", "SIGTERM", "SIGHUP", "SIGINT"};
  return reasons[code];
}

/// Replicas train in lockstep. If stages train one after another, those not training at the moment have
/// nothing to wait for.
bool walks(const Grid& grid, const RunLength& length) {
  return grid.speaks() || (grid.ownsStages() && length.turns > 1);
}

int walkers(const Grid& grid, const RunLength& length) {
  if (grid.plan().groups == 1) return 1;
  return length.turns > 1 ? grid.plan().size() : grid.plan().groups;
}

} // namespace

RunControl::RunControl(const Grid& grid, const RunConfig& config, const RunLength& length, Restart& restart,
                       const RunDirectory& directory, Checkpointer& checkpointer, Mailbox& mailbox,
                       std::int64_t time_limit)
    : _grid(grid), _config(config), _length(length), _restart(restart), _directory(directory),
      _checkpointer(checkpointer), _time_limit(time_limit),
      _pace(mailbox, length.runStep(restart.start), walkers(grid, length), walks(grid, length)),
      _kept_step(restart.kept_step >= 0 ? restart.kept_step : length.runStep(restart.start)),
      _kept_before(_kept_step), _reserve(length, restart.start, config.run.evaluate_every),
      _before_divergence([this] { _checkpointer.finishBeforeEnd(); }) {
  _own.checkpoint = restart.asked ? 1 : 0;
  if (planOf(config.strategy).atOwnPace()) return;
  _agreement.emplace(mailbox, _pace, _kept_step, length.total(), [this] { return newWishes(); });
}

std::vector<double> RunControl::keptNumbers() const {
  return _restart.keeps_state ? _restart.found->numbers : std::vector<double>{};
}

bool RunControl::checkpointDue(std::int64_t run_step) const {
  const std::int64_t every = _config.checkpoint.every;
  if (every == 0) return false;
  if (_agreement) return run_step % every == 0 || run_step == _length.total();
  return run_step / every > _kept_step / every || run_step == _length.total();
}

/// Between meetings, which may be far apart, this is the only call: a checkpoint that is written gets its
/// name.
bool RunControl::wantsMeeting(const Position& position, const Position& soon, double seconds) {
  _checkpointer.poll();
  _reserve.passed(position, seconds);
  _own.add(newWishes());
  return _own.any() || (_directory.exists() && checkpointDue(_length.runStep(soon)));
}

void RunControl::evaluates() {
  _reserve.evaluates(_pace.secondsOfSlowest());
  _pace.rests();
}

void RunControl::evaluated(double seconds) {
  _reserve.evaluated(seconds);
  _pace.rested(seconds);
}

/// All ranks do what any rank wishes.
Wishes RunControl::agreeAtMeeting() {
  _own.add(newWishes());
  Wishes agreed;
  agreed.stop = _grid.world().maximum(_own.stop);
  agreed.checkpoint = _grid.world().maximum(_own.checkpoint);
  _own = {};
  return agreed;
}

bool RunControl::restore(const ExecSpace& space, StageUpdater& updater) {
  return _restart.keeps_state && restoreUpdater(space, _restart, _config, _grid, updater);
}

void RunControl::begin(StageUpdater& updater) {
  updater.beforeUpdate([this] { _checkpointer.waitForCopy(); });
}

bool RunControl::limitReached() const {
  if (_time_limit == 0) return false;
  // Leaves time until the slowest rank reaches the agreed step, and time to write: a checkpoint that the
  // scheduler kills is lost.
  const double writes = _checkpointer.busy() ? 2.5 : 1.5;
  const double reserve =
      _reserve.seconds(_pace.secondsOfSlowest()) + writes * _checkpointer.expectedSeconds();
  return secondsSince(program_start) + reserve >= static_cast<double>(_time_limit);
}

RunControl::StopCode RunControl::codeOf(int signal) {
  switch (signal) {
  case SIGINT:
    return interrupted;
  case SIGHUP:
    return hung_up;
  case SIGTERM:
    return terminated;
  default:
    return none;
  }
}

Wishes RunControl::newWishes() {
  Wishes wishes;
  StopCode stop = codeOf(Signals::stop());
  if (Signals::takeCheckpointRequest()) wishes.checkpoint = 1;
  if (_grid.world().rank() == 0 && secondsSince(_checked) >= between_checks) {
    _checked = Clock::now();
    if (stop == none && limitReached()) stop = time_limit;
    if (_directory.takeCheckpointRequest()) wishes.checkpoint = 1;
  }
  if (stop > _reported_stop) wishes.stop = _reported_stop = stop;
  return wishes;
}

bool RunControl::afterStep(const ExecSpace& space, const Position& position,
                           const std::vector<StageUpdater*>& updaters) {
  _restart.opened.reset(); // everything in it has been read
  _checkpointer.poll();
  const std::int64_t run_step = _length.runStep(position);
  _reserve.passed(position);
  const Wishes agreed = _agreement ? _agreement->meet(run_step) : agreeAtMeeting();
  const bool due = checkpointDue(run_step), stopped = agreed.stop != none;
  const bool asked = agreed.checkpoint != 0 || (!due && wishedAtEnd(run_step));
  // If the run begins at an earlier step than that of its checkpoint, a replacement should be written soon.
  const bool replaces =
      std::exchange(_first_step, false) && _restart.found && run_step <= _restart.found->run_step;
  if (asked) Signals::takeCheckpointRequest(); // a signal that has just arrived is answered as well
  if (_directory.exists() && (due || stopped || replaces || asked)) {
    _checkpointer.take(space, position, updaters);
    _kept_before = std::exchange(_kept_step, run_step);
  }
  if (!_directory.exists() && asked) Log::warning("no checkpoint was written: it needs a run directory (-d)");
  if (stopped) _stop_reason = reasonOf(agreed.stop);
  return stopped;
}

/// All ranks come together after the last step, on which they cannot agree before. Collective.
bool RunControl::wishedAtEnd(std::int64_t run_step) const {
  if (!_agreement || run_step != _length.total()) return false;
  return _grid.world().maximum(std::int64_t{_agreement->leavesCheckpoint() ? 1 : 0}) > 0;
}

bool RunControl::finish() {
  _grid.world().barrier(); // until all have arrived, some may still be asked
  if (_agreement) _agreement->end();
  const bool written = _checkpointer.finish();
  return _grid.world().maximum(std::int64_t{written ? 0 : 1}) == 0;
}

} // namespace partita
