#pragma once

#include "partita/data/dataset.hpp"
#include "partita/plan/grid_plan.hpp"

namespace partita {

/// What of a deck shows only with its data and its grid. Each throws UserError.

/// Does the network tell as many classes of a sample as there are labels?
void checkLabels(const Partition& partition, const DataSets& sets);

/// Can the training set be shared out in batches over this grid, and the stages learn from their shares?
void checkTraining(const RunConfig& config, const DataSets& sets, const Partition& partition,
                   const GridPlan& grid);

/// Values of the largest message while training: between stages, or of the sum of a layer's gradient.
double largestMessage(const RunConfig& config, const Partition& partition, const GridPlan& grid);

/// Checks deck and data and prints the effective deck and the partition over `ranks`, without Kokkos.
void dryRun(const RunConfig& config, int ranks);

} // namespace partita
