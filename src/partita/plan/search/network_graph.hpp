#pragma once

#include "partita/plan/layer_plan.hpp"
#include "partita/plan/search/operator_graph.hpp"

namespace partita {

/// The layers of a deck as operators, for microbatches of `microbatch` samples on one device each. Cuts are
/// possible before each of them, so groups such as residual blocks are one layer. A layer that is tied to the
/// embedding has a copy of its table.
ModelChain chainOf(const std::vector<LayerPlan>& layers, std::int64_t microbatch);

} // namespace partita
