#pragma once

#include "partita/plan/layer_plan.hpp"

#include <cstdint>
#include <vector>

namespace partita {

/// How often a training pass computes the forward pass of each leaf again, in the order of `leavesOf`: each
/// group with `recompute` around it does so once at the start of its backward pass. Groups before the first
/// layer with parameters have none, unless the gradient of the input is needed.
std::vector<std::int64_t> recomputations(const std::vector<LayerPlan>& layers, bool input_gradient);

} // namespace partita
