#pragma once

#include "partita/core/clock.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace partita {

/// Time as it passes for somebody who looks at it again and again. Batch systems may suspend a job and resume
/// it much later, so the time between two looks counts only up to a limit.
class WatchedTime {
 public:
  /// `clock`: the seconds since the construction; empty: those of the system.
  explicit WatchedTime(std::function<double()> clock = {})
      : _clock(clock ? std::move(clock) : [start = Clock::now()] { return secondsSince(start); }) {}

  /// Returns the seconds that have counted so far; of those since the last look, at most `longest_gap` count.
  double look(double longest_gap) {
    const double seconds = _clock();
    _now += std::min(seconds - _looked, longest_gap);
    _looked = seconds;
    return _now;
  }

 private:
  std::function<double()> _clock;
  double _looked = 0.0, _now = 0.0; ///< at the last look: all seconds, and those that count
};

} // namespace partita
