#pragma once

#include "partita/comm/wait_times.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/region.hpp"

#include <utility>

namespace partita {

/// Seconds of a run by the clock of this rank, including those before a restart.
struct RunTimes {
  double training = 0.0; ///< without evaluations
  double evaluation = 0.0;
};

/// Measures RunTimes; runs while a strategy trains. Wait times count from its start, and the
/// times of phases from the first one.
class TrainingClock {
 public:
  explicit TrainingClock(const RunTimes& spent = {}) : _spent(spent) {}

  void start() {
    resetWaitTimes();
    if (!std::exchange(_started, true)) PhaseTimes::reset();
    _running = true;
    _start = Clock::now();
  }
  void stop() {
    _spent = times();
    _running = false;
  }
  /// Books `seconds` of the time since `start` as evaluation.
  void evaluated(double seconds) {
    _spent.evaluation += seconds;
    _spent.training -= seconds;
  }
  RunTimes times() const {
    RunTimes now = _spent;
    if (_running) now.training += secondsSince(_start);
    return now;
  }

 private:
  RunTimes _spent;
  bool _running = false, _started = false;
  Clock::time_point _start;
};

} // namespace partita
