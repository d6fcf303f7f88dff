#pragma once

#include "partita/core/types.hpp"

#include <string>
#include <vector>

namespace partita {

/// One line of what `partita bench` writes.
struct Measurement {
  std::string name;
  double value;
  std::string unit;
};

/// Forward and backward pass of single convolutions, told beside the rate of a large matrix product, GFLOP/s.
std::vector<Measurement> measureConvolutions(const ExecSpace& space, bool quick, double gemm_rate);

} // namespace partita
