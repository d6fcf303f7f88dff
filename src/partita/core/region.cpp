#include "partita/core/region.hpp"

#include "partita/core/clock.hpp"

namespace partita {

namespace {
std::array<double, phase_count> phase_seconds{};
int depth = 0; // only the outermost region counts: evaluation has matrix products too
} // namespace

bool PhaseTimes::s_enabled = false;

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
  case Phase::evaluation:
    return "evaluation";
  case Phase::checkpoint:
    return "checkpoints";
  }
  return "?";
}

void PhaseTimes::enable(bool on) {
  s_enabled = on;
}
void PhaseTimes::reset() {
  phase_seconds = {};
}
void PhaseTimes::add(Phase phase, double seconds) {
  phase_seconds[static_cast<std::size_t>(phase)] += seconds;
}
std::array<double, phase_count> PhaseTimes::seconds() {
  return phase_seconds;
}

Region::Region(const ExecSpace& space, const char* name, Phase phase)
    : _space(space), _phase(phase), _timed(PhaseTimes::enabled() && depth == 0) {
  ++depth;
  Kokkos::Profiling::pushRegion(name);
  if (_timed) _start = Clock::now();
}

Region::~Region() {
  if (_timed) {
    fence(_space, "partita::Region");
    PhaseTimes::add(_phase, secondsSince(_start));
  }
  Kokkos::Profiling::popRegion();
  --depth;
}

} // namespace partita
