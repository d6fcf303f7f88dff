#include "partita/core/region.hpp"

#include "partita/core/clock.hpp"

namespace partita {

namespace {

/// Of one thread: those that write files or read batches have regions and waits that no step waits for.
struct Times {
  bool enabled = false;
  bool whole = false; ///< in a phase in which no other counts: evaluation has matrix products too
  int depth = 0;      ///< of regions within one another
  double sum = 0.0;
  std::array<double, phase_count> seconds{};
};
thread_local Times times;

bool countsAsWhole(Phase phase) {
  return phase == Phase::evaluation || phase == Phase::checkpoint;
}

} // namespace

const char* phaseName(Phase phase) {
  switch (phase) {
  case Phase::gemm:
    return "matrix products";
  case Phase::elementwise:
    return "element-wise and loss";
  case Phase::optimiser:
    return "optimiser";
  case Phase::data:
    return "data";
  case Phase::communication:
    return "communication";
  case Phase::waiting:
    return "waiting";
  case Phase::evaluation:
    return "evaluation";
  case Phase::checkpoint:
    return "checkpoints";
  }
  return "?";
}

void PhaseTimes::enable(bool on) {
  times.enabled = on;
}
bool PhaseTimes::enabled() {
  return times.enabled;
}
void PhaseTimes::reset() {
  times.seconds = {};
  times.sum = 0.0;
}
double PhaseTimes::counted() {
  return times.sum;
}
void PhaseTimes::add(Phase phase, double seconds, double before) {
  if (!times.enabled || times.whole) return;
  const double own = seconds - (times.sum - before);
  times.seconds[static_cast<std::size_t>(phase)] += own;
  times.sum += own;
}
std::array<double, phase_count> PhaseTimes::seconds() {
  return times.seconds;
}

Region::Region(const ExecSpace& space, const char* name, Phase phase)
    : _space(space), _phase(phase),
      _timed(times.enabled && !times.whole && (times.depth == 0 || phase == Phase::communication)) {
  // What the device has still to do belongs to the region around this one.
  if (_timed && times.depth > 0) fence(_space, "partita::Region::begin");
  ++times.depth;
  Kokkos::Profiling::pushRegion(name);
  if (!_timed) return;
  times.whole = countsAsWhole(phase);
  _before = times.sum;
  _start = Clock::now();
}

Region::~Region() {
  if (_timed) {
    fence(_space, "partita::Region");
    times.whole = false;
    PhaseTimes::add(_phase, secondsSince(_start), _before);
  }
  Kokkos::Profiling::popRegion();
  --times.depth;
}

} // namespace partita
