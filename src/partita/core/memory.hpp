#pragma once

#include <cstdint>

namespace partita {

/// Bytes and number of Kokkos allocations, counted through the Tools callbacks; a tool the user has loaded
/// still gets every call. `start` belongs right behind Kokkos::initialize; later calls change nothing.
class AllocationCounter {
 public:
  static void start();
  static std::int64_t liveBytes();
  static std::int64_t peakBytes();
  static std::int64_t count(); ///< allocations since `start`
  static std::int64_t
  foreignLabels(); ///< allocations since `start` whose label does not begin with `partita::`
};

/// Largest resident set of this process so far, in bytes.
std::int64_t peakResidentBytes();

} // namespace partita
