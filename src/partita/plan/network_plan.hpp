#pragma once

#include "partita/plan/layer_plan.hpp"

namespace partita {

/// The layers of a deck with all sizes resolved: repeats unrolled, the width of the last layer equal to the
/// number of classes. `input`: extents of a sample. Throws UserError if a size is missing or does not fit.
std::vector<LayerPlan> planNetwork(const NetworkSection& network, const Shape& input, std::int64_t classes);

} // namespace partita
