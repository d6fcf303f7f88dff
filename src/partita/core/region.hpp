#pragma once

#include "partita/core/clock.hpp"
#include "partita/core/types.hpp"

#include <array>
#include <string>

namespace partita {

/// Where the time of a step is spent; the rows of the table that `run/timing` and `partita bench` print.
enum class Phase { gemm, elementwise, optimiser, data, communication, evaluation, checkpoint };
constexpr int phase_count = 7;
const char* phaseName(Phase phase);

/// Seconds spent in each phase since the last reset. Off by default, and enabled only by the deck or the
/// benchmark, since measuring needs a fence at the end of each phase.
class PhaseTimes {
 public:
  static void enable(bool on);
  static bool enabled() { return s_enabled; }
  static void reset();
  static void add(Phase phase, double seconds);
  static std::array<double, phase_count> seconds();

 private:
  static bool s_enabled;
};

/// A profiling region for Kokkos Tools that lasts as long as the object; also timed as a phase if phase times
/// are enabled.
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
  Clock::time_point _start;
};

} // namespace partita
