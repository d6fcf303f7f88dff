#pragma once

#include <algorithm>
#include <ctime>
#include <limits>

namespace partita::test {

/// The least computing time of up to five calls, in seconds; stops at the first call below the limit. On
/// virtual machines, the time for which the machine is halted may count as computing time.
template <class Action>
double computingTime(double limit, const Action& action) {
  double least = std::numeric_limits<double>::infinity();
  for (int call = 0; call < 5 && least >= limit; ++call) {
    const std::clock_t begin = std::clock();
    action();
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

} // namespace partita::test
