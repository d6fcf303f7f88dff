#pragma once

#include "partita/core/clock.hpp"
#include "partita/core/types.hpp"

#include <array>
#include <string>

namespace partita {

/// Where the time of a step is spent; the rows of the table that `run/timing` and `partita bench` print.
/// `waiting`: for other ranks; what happens in the meantime counts as its own phase.
enum class Phase { gemm, elementwise, optimiser, data, communication, waiting, evaluation, checkpoint };
constexpr int phase_count = 8;
const char* phaseName(Phase phase);

/// Seconds that the calling thread has spent in each phase since the last reset; no second counts twice. Off
/// by default, and enabled only by the deck or the benchmark, since measuring needs a fence at the end of
/// each phase.
class PhaseTimes {
 public:
  static void enable(bool on);
  static bool enabled();
  static void reset();
  static double counted(); ///< the seconds of all phases together
  /// Adds the last `seconds`, without those that phases have got since `counted()` was `before`. Adds nothing
  /// during an evaluation or a checkpoint, which count as a whole.
  static void add(Phase phase, double seconds, double before);
  static std::array<double, phase_count> seconds();
};

/// A profiling region for Kokkos Tools that lasts as long as the object; also timed as a phase if phase times
/// are enabled. Of regions within one another the outermost counts, but communication within it counts as
/// such.
class Region {
 public:
  Region(const ExecSpace& space, const char* name, Phase phase);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  ExecSpace _space;
  Phase _phase;
  bool _timed;
  double _before = 0.0; ///< see PhaseTimes::add
  Clock::time_point _start;
};

} // namespace partita
