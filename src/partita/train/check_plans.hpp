#pragma once

#include "partita/data/dataset.hpp"
#include "partita/io/run_file.hpp"
#include "partita/plan/grid_plan.hpp"

#include <string>

namespace partita {

/// Checks of a deck that need its data and its grid. Each throws UserError.

/// Checks that a network with an output of this shape predicts as many classes per sample as there are
/// labels.
void checkLabels(const Shape& output, const DataSets& sets);

/// Checks that the training set can be divided into batches over this grid, and that the stages can learn
/// from their shares.
void checkTraining(const RunConfig& config, const DataSets& sets, const Partition& partition,
                   const GridPlan& grid);

/// Number of values in the largest message during training: between stages or parts, or in the sum of a
/// layer's gradient.
double largestMessage(const RunConfig& config, const Partition& partition, const GridPlan& grid);

/// Checks deck and data and prints the effective deck and the partition over `ranks`, without Kokkos. Also
/// checks that the run's other files can be created, and leaves none behind; `scratch` is the folder for
/// those that vanish with the run.
void dryRun(const RunConfig& config, int ranks, const std::string& scratch);

/// Throws UserError if a network of `stages` stages cannot end after the first `wanted` of them.
void checkStageCount(const RunConfig& config, int stages, int wanted);

/// If the network adds up its exits with fitted weights: throws UserError if the parameter file `path` has
/// those of another number of stages, and warns if it has none although the network ends after all `stages`.
void checkExitWeights(const RunFacts& facts, const RunConfig& config, int stages, int wanted,
                      const std::string& path);

} // namespace partita
