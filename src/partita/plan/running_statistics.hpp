#pragma once

#include "partita/plan/grid_plan.hpp"

namespace partita {

/// Throws UserError if a layer that keeps running statistics cannot compute those of a batch, because the
/// grid divides it into parts that are too small, or because replicas would not reach the layer in the same
/// order.
void checkStatistics(const RunConfig& config, const Partition& partition, const GridPlan& grid);

} // namespace partita
