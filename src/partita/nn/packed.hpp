#pragma once

#include "partita/core/numbers.hpp"

namespace partita {

/// Parameters and gradients of 16 bits behind layers, which know `Real` only: the layer under way is bound to
/// `values` and `gradients_of_values`, long enough for any of them, and its numbers are converted before and
/// behind the call. A tied layer has the table of the embedding behind its own.
struct Packed {
  Numbers parameters, gradients; ///< of some layers in a row
  Vector values, gradients_of_values;
  Numbers table, table_gradient; ///< of the stage's embedding, whichever layers these are; empty: none

  Precision precision() const { return parameters.precision; }
  Packed part(std::int64_t begin, std::int64_t end) const {
    return {parameters.part(begin, end),
            gradients.part(begin, end),
            values,
            gradients_of_values,
            table,
            table_gradient};
  }
};

} // namespace partita
