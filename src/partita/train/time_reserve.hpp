#pragma once

#include "partita/core/clock.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/train/usual_time.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

namespace partita {

/// How long before its time limit a run must begin to agree on its end: until all ranks have reached the same
/// step, and until an evaluation on the way there is over. It expects these to take as long as the last time.
class TimeReserve {
 public:
  static constexpr double shortest_gap = 0.25; // s

  /// `start`: where the run begins; `evaluate_every`: epochs. `length` must outlive the object.
  TimeReserve(const RunLength& length, const Position& start, std::int64_t evaluate_every,
              std::function<Clock::time_point()> now = Clock::now)
      : _length(length), _interval(evaluate_every * length.per_epoch), _now(std::move(now)), _position(start),
        _measured_step(length.runStep(start)) {}

  /// This rank is between steps; a meeting of all ranks would begin in `until_meeting` seconds.
  void passed(const Position& position, double until_meeting = 0.0) {
    _position = position;
    _until_meeting = until_meeting;
    const double seconds = secondsBetween(_measured, _now());
    if (seconds < shortest_gap) return;
    const std::int64_t step = _length.runStep(position);
    _gap.measured(seconds);
    _steps = std::max<std::int64_t>(1, step - _measured_step);
    _measured_step = step;
    _measured = _now();
  }

  /// An evaluation of all ranks begins, which belongs to no step. `slowest`: see `seconds`.
  void evaluates(double slowest) {
    _evaluates_since = _now();
    _slowest_before = slowest;
  }

  /// It has taken these seconds.
  void evaluated(double seconds) {
    _evaluates_since.reset();
    _evaluation.measured(seconds);
    _measured += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  /// `slowest`: what the slowest rank needs for its steps between two messages.
  double seconds(double slowest) const {
    if (_evaluates_since)
      return withEvaluation(untilMeeting(std::max(_gap.last(), _slowest_before)), stepsBetweenEvaluations()) +
             std::max(0.0, _evaluation.last() - secondsBetween(*_evaluates_since, _now()));
    const double own = std::max(_gap.last(), _gap.counted(secondsBetween(_measured, _now())));
    return withEvaluation(untilMeeting(std::max(own, slowest)), stepsToEvaluation());
  }

 private:
  /// Seconds until ranks meet, and those of an evaluation if it can begin earlier, after this many steps.
  double withEvaluation(double wait, std::int64_t steps) const {
    const double most = static_cast<double>(_steps) / std::max(shortest_gap, _gap.last()) * wait + 1.0;
    return wait + (static_cast<double>(steps) <= most ? _evaluation.last() : 0.0);
  }
  /// `step`: seconds of the slowest rank.
  double untilMeeting(double step) const {
    return std::max(3.0 * std::max(shortest_gap, step), 1.5 * _until_meeting);
  }
  std::int64_t stepsBetweenEvaluations() const {
    return _interval > 0 ? _interval : std::numeric_limits<std::int64_t>::max();
  }
  /// Those that the position still has to take; the evaluation at the position itself is over.
  std::int64_t stepsToEvaluation() const {
    const std::int64_t step = _position.step,
                       end = _position.phase == RunPhase::recovery ? _length.recovery_steps : _length.steps;
    if (step >= end) return std::numeric_limits<std::int64_t>::max();
    const std::int64_t to_end = end - step;
    return _interval > 0 ? std::min(to_end, _interval - step % _interval) : to_end;
  }

  const RunLength& _length;
  std::int64_t _interval; ///< steps
  std::function<Clock::time_point()> _now;
  Position _position;
  std::int64_t _measured_step; ///< of the run, at the beginning of the gap
  Clock::time_point _measured = _now();
  UsualTime _gap; ///< duration of as many steps as take a quarter of a second, at least one
  std::int64_t _steps = 1;
  UsualTime _evaluation;
  std::optional<Clock::time_point> _evaluates_since; ///< none: no evaluation is going on
  double _slowest_before = 0.0;                      ///< see `seconds`, when it began
  double _until_meeting = 0.0;
};

} // namespace partita
