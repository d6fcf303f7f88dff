#pragma once

#include "partita/plan/layer_plan.hpp"

#include <cstdint>
#include <vector>

namespace partita {

/// What the backward pass of a training step computes in a leaf.
struct BackwardPass {
  std::int64_t again = 0;      ///< repetitions of its forward pass
  bool input_gradient = false; ///< the gradient of its input, besides those of its parameters
};

/// One for each leaf, in the order of `leavesOf`. A group with `recompute` repeats the forward pass of all
/// its leaves at the start of its backward pass. Groups before the first layer with parameters have no
/// backward pass unless `input_gradient`, the gradient of the input of the first layer, is needed. Both
/// branches of a residual group have the same input, so both compute its gradient or neither does.
std::vector<BackwardPass> backwardPasses(const std::vector<LayerPlan>& layers, bool input_gradient);

} // namespace partita
