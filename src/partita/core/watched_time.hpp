#pragma once

#include "partita/core/clock.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace partita {

/// Seconds that pass while somebody looks. Batch systems may suspend a job and let it go on much later: of a
/// time without a look, only a part counts.
class WatchedTime {
 public:
  /// `clock`: the seconds since the construction; empty: those of the system.
  explicit WatchedTime(std::function<double()> clock = {})
      : _clock(clock ? std::move(clock) : [start = Clock::now()] { return secondsSince(start); }) {}

  /// Looks. Returns the seconds that count so far; since the last look, at most `longest_gap` do.
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
