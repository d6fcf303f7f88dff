#pragma once

#include "partita/plan/partition.hpp"
#include "partita/plan/run_length.hpp"

namespace partita {

/// FLOPs of matrix products, of all ranks together.
struct RunFlops {
  double hardware = 0.0; ///< as they are computed
  double model = 0.0;    ///< without the products of forward passes that backward passes repeat
};

/// What a whole run computes. Joint steps of stages with losses of their own count like other steps.
RunFlops runFlops(const RunConfig& config, const Partition& partition, const RunLength& length);

} // namespace partita
