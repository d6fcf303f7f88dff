#pragma once

#include "partita/core/numbers.hpp"
#include "partita/core/stored_vector.hpp"

namespace partita {

/// The parameters of a stage as an optimiser sees them: flat, with their gradients in the same precision.
/// Numbers of 16 bits are the rounded copies of `masters`, which alone are updated; in single precision there
/// are none.
struct Trained {
  Numbers parameters, gradients;
  StoredVector masters;
};

} // namespace partita
