#pragma once

#include "partita/core/numbers.hpp"

namespace partita {

/// Parameters and gradients of 16 bits behind layers, which know `Real` only: the layer under way is bound to
/// `values` and `gradients_of_values`, long enough for any of them, and its numbers are converted before and
/// behind the call.
struct Packed {
  Numbers parameters, gradients; ///< of some layers in a row
  Vector values, gradients_of_values;

  Precision precision() const { return parameters.precision; }
  Packed part(std::int64_t begin, std::int64_t end) const {
    return {parameters.part(begin, end), gradients.part(begin, end), values, gradients_of_values};
  }
};

} // namespace partita
