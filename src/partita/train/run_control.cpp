#include "partita/train/run_control.hpp"

#include "partita/core/clock.hpp"
#include "partita/core/log.hpp"
#include "partita/train/signals.hpp"

#include <algorithm>
#include <csignal>

namespace partita {

namespace {

/// How often ranks agree: one all-reduce of some microseconds in so many seconds.
constexpr double seconds_between = 0.25;

const auto program_start = Clock::now();

const char* reasonOf(std::int64_t code) {
  static const char* const reasons[] = {"", "the time limit is near", "SIGTERM", "SIGHUP", "SIGINT"};
  return reasons[code];
}

} // namespace

RunControl::RunControl(const Grid& grid, const RunConfig& config, const RunLength& length, Restart& restart,
                       const RunDirectory& directory, Checkpointer& checkpointer, std::int64_t time_limit)
    : _grid(grid), _config(config), _length(length), _restart(restart), _directory(directory),
      _checkpointer(checkpointer), _time_limit(time_limit), _agreement(grid.world()) {}

bool RunControl::restore(const ExecSpace& space, StageUpdater& updater) {
  return _restart.keeps_state && restoreUpdater(space, _restart, _config, _grid, updater);
}

void RunControl::begin(StageUpdater& updater) {
  updater.beforeUpdate([this] { _checkpointer.waitForCopy(); });
}

bool RunControl::limitReached() const {
  if (_time_limit == 0) return false;
  // Until the next question and its answer, and to write: a checkpoint that the scheduler kills is none.
  const double gap = std::max(seconds_between, std::max(_last_gap, secondsSince(_asked)));
  const double writes = _checkpointer.busy() ? 2.5 : 1.5;
  const double reserve = 3.0 * gap + writes * _checkpointer.expectedSeconds();
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

LaterMaximum::Values RunControl::ownWishes(std::int64_t steps) {
  LaterMaximum::Values wishes{};
  wishes[stop] = codeOf(Signals::stop());
  if (Signals::takeCheckpointRequest()) wishes[checkpoint] = 1;
  if (_grid.world().rank() != 0) return wishes;
  if (wishes[stop] == none && limitReached()) wishes[stop] = time_limit;
  if (_directory.takeCheckpointRequest()) wishes[checkpoint] = 1;
  const double a_step = secondsSince(_asked) / static_cast<double>(std::max<std::int64_t>(1, steps));
  // Another stage may be slower by far: the interval grows step by step.
  wishes[interval] = std::clamp(static_cast<std::int64_t>(seconds_between / a_step), std::int64_t{1},
                                2 * std::max<std::int64_t>(1, steps));
  return wishes;
}

/// The answer to the question asked before, and the next question.
LaterMaximum::Values RunControl::agree(std::int64_t steps) {
  LaterMaximum::Values answer{};
  if (_agreement.started()) answer = _agreement.finish();
  LaterMaximum::Values wishes = ownWishes(steps - _asked_at);
  // A signal reaches ranks one after the other: the checkpoint that is taken now is the answer to all of
  // them.
  if (answer[checkpoint] != 0) wishes[checkpoint] = 0;
  _agreement.start(wishes);
  _last_gap = secondsSince(_asked);
  _asked = Clock::now();
  _asked_at = steps;
  _next_agreement = steps + std::max<std::int64_t>(1, answer[interval]);
  return answer;
}

bool RunControl::afterStep(const ExecSpace& space, const Position& position,
                           const std::vector<StageUpdater*>& updaters) {
  _restart.opened.reset(); // all that was in it has found its place
  _checkpointer.poll();
  LaterMaximum::Values answer{};
  if (++_step == _next_agreement) answer = agree(_step);
  const std::int64_t run_step = _length.runStep(position), every = _config.checkpoint.every;
  const bool last = run_step == _length.total(), due = every > 0 && (run_step % every == 0 || last),
             stopped = answer[stop] != none && !last;
  // Where the run begins at an earlier step than that of its checkpoint, the one that takes the other's place
  // should be there soon.
  const bool replaces = _step == 1 && _restart.found && run_step <= _restart.found->run_step;
  if (_directory.exists() && (due || stopped || replaces || answer[checkpoint] != 0))
    _checkpointer.take(space, position, updaters);
  if (!_directory.exists() && answer[checkpoint] != 0)
    Log::warning("no checkpoint: without a run directory (-d) nothing is kept");
  if (stopped) _stop_reason = reasonOf(answer[stop]);
  return stopped;
}

bool RunControl::finish() {
  if (_agreement.started()) _agreement.finish();
  const bool written = _checkpointer.finish();
  return _grid.world().maximum(std::int64_t{written ? 0 : 1}) == 0;
}

} // namespace partita
