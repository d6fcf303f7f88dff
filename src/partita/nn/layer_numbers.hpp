#pragma once

#include "partita/core/error.hpp"
#include "partita/core/typed_span.hpp"

namespace partita {

/// Parameters and gradients of some consecutive layers, in the precision in which they are stored. Layers
/// compute with `Real`: 16-bit numbers are converted, call by call, into the two scratch buffers that all
/// layers share.
struct LayerNumbers {
  TypedSpan parameters, gradients;
  TypedSpan table = {},
            table_gradient = {}; ///< of the stage's embedding, whichever layers these are; or empty
  Vector scratch = {}, gradient_scratch = {}; ///< each as long as any layer's `LayerPlan::realCopies`

  bool packed() const { return parameters.precision != Precision::single; }
  LayerNumbers part(std::int64_t begin, std::int64_t end) const {
    return {parameters.part(begin, end),
            gradients.part(begin, end),
            table,
            table_gradient,
            scratch,
            gradient_scratch};
  }
  Vector realParameters() const { return real(parameters); } ///< only if they are not packed
  Vector realGradients() const { return real(gradients); }

 private:
  static Vector real(const TypedSpan& numbers) {
    PARTITA_REQUIRE(numbers.precision == Precision::single, "numbers of 16 bits are no Real");
    return Vector(static_cast<Real*>(numbers.data), static_cast<std::size_t>(numbers.size));
  }
};

} // namespace partita
