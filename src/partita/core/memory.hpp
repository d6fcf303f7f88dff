#pragma once

#include <cstdint>

namespace partita {

/// Bytes of Kokkos allocations in the memory where Partita computes, and the number of all, counted through
/// the Tools callbacks; a tool the user has loaded still gets every call. `start` belongs right behind
/// Kokkos::initialize; later calls change nothing.
class AllocationCounter {
 public:
  static void start();
  static std::int64_t liveBytes();
  static std::int64_t peakBytes(); ///< most since `start` or `restartPeak`
  static void restartPeak();
  static std::int64_t count(); ///< allocations since `start`
  /// Allocations since `start` whose label begins neither with `partita::` nor with `Kokkos::`, which marks
  /// scratch of its own.
  static std::int64_t foreignLabels();
};

/// Largest resident set of this process so far, in bytes.
std::int64_t peakResidentBytes();

} // namespace partita
