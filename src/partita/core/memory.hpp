#pragma once

#include <cstdint>

namespace partita {

/// Counts the bytes of Kokkos allocations in the memory space where Partita computes, and the number of all
/// allocations, through the Kokkos Tools callbacks; a tool loaded by the user still receives every call. Call
/// `start` right after Kokkos::initialize; further calls have no effect. From then on, large arrays on the
/// host also get huge pages, where Linux has them.
class AllocationCounter {
 public:
  static void start();
  static std::int64_t liveBytes();
  static std::int64_t peakBytes(); ///< maximum since `start` or `restartPeak`
  static void restartPeak();
  static std::int64_t count(); ///< allocations since `start`
  /// Allocations since `start` whose label begins with neither `partita::` nor `Kokkos::` (Kokkos's own
  /// scratch memory).
  static std::int64_t foreignLabels();
};

/// Largest resident set of this process so far, in bytes.
std::int64_t peakResidentBytes();

} // namespace partita
