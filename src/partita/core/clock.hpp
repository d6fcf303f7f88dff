#pragma once

#include <chrono>

namespace partita {

/// The clock for all timing; it is monotonic.
using Clock = std::chrono::steady_clock;

inline double secondsBetween(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

inline double secondsSince(Clock::time_point begin) {
  return secondsBetween(begin, Clock::now());
}

} // namespace partita
