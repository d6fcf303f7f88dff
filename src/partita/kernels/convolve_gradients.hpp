#pragma once

#include "partita/core/typed_matrix.hpp"

#include <functional>

namespace partita {

/// Called again and again during a convolution, each time after some rows or outputs.
using Between = std::function<void()>;

/// What the two gradients of a convolution are computed from, and where they go, in the layouts of
/// `Convolve`.
struct ConvolveGradients {
  TypedMatrix in, grad, weight;         ///< `grad`: of the sums
  TypedMatrix weight_gradient, grad_in; ///< may be empty: then it is not computed
  bool accumulate = false;              ///< add the gradient of the weights to what is there
  Between between = {};

  bool ofWeight() const { return weight_gradient.size() > 0; }
  bool ofInput() const { return grad_in.size() > 0; }
  /// Those of some rows of the batch, computed after those of the rows before them.
  ConvolveGradients rows(std::int64_t first, std::int64_t count) const {
    ConvolveGradients some = *this;
    some.in = in.rowsFrom(first, count);
    some.grad = grad.rowsFrom(first, count);
    if (ofInput()) some.grad_in = grad_in.rowsFrom(first, count);
    some.accumulate = accumulate || first > 0;
    return some;
  }
};

} // namespace partita
