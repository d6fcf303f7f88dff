#pragma once

#include "partita/plan/layer_plan.hpp"

#include <cstdint>
#include <vector>

namespace partita {

/// How often a training pass repeats the forward pass of each leaf, in the order of `leavesOf`: once for each
/// group with `recompute` around it, at the start of its backward pass. Groups before the first layer with
/// parameters have no backward pass, unless the gradient of the input is needed.
std::vector<std::int64_t> recomputations(const std::vector<LayerPlan>& layers, bool input_gradient);

} // namespace partita
