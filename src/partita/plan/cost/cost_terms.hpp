#pragma once

#include "partita/plan/cost/cost_model.hpp"

namespace partita {

/// What both modes compute from.
struct CostTerms {
  const CostTask& task;
  const Cluster& cluster;
  const std::vector<LayerTime>& times; ///< one per row of the task
  const KernelTimes& kernels;          ///< exact mode
};

/// The rows that a division of channels divides: convolutions, or in a network without any, the fully
/// connected layers. Indices of rows.
std::vector<std::size_t> dividedRows(const std::vector<LayerCost>& layers);
/// The convolutions that a division of places divides: the first `spatial_layers` of them.
std::vector<std::size_t> spatialRows(const CostTask& task);
/// Index of the first row with parameters: the gradient of its input is not needed.
std::size_t firstTrained(const std::vector<LayerCost>& layers);

/// A prediction with its grid of ranks, batch and steps set; `parts` of the hybrid strategies are the ranks
/// of a node.
Prediction startPrediction(const CostTerms& terms, CostStrategy strategy, std::int64_t ranks);

/// What a ring of ranks sends over, if all rings like it send at once.
struct RingPath {
  const Link& link;
  double flows; ///< that share the most loaded cable between nodes
};

/// Rings of `size` of the `ranks`, each `stride` after the one before; consecutive ranks fill a node. The
/// flows of at most 4096 ranks are counted, because they repeat.
RingPath ringPath(const Cluster& cluster, std::int64_t ranks, std::int64_t size, std::int64_t stride);

/// FLOPs of the backward pass of a row, per sample.
double backwardFlops(const std::vector<LayerCost>& layers, std::size_t row);
/// Seconds on one rank, on average over the network.
double secondsPerFlop(const CostTerms& terms);

/// What the strategy needs besides memory; `divided` are the rows that are divided, for limits of channels.
Obstacle channelObstacle(const CostTask& task, const std::vector<std::size_t>& divided, CostStrategy strategy,
                         std::int64_t parts);

/// The cuttable layers of a network in `stages` consecutive groups of nearly equal time: for each row its
/// stage. There must be at least as many layers as stages.
std::vector<std::int64_t> stagesOfRows(const CostTerms& terms, std::int64_t stages);

/// Number of microbatches of a pipeline of so many stages.
std::int64_t segmentsOf(const CostTask& task, std::int64_t stages);

/// Fill in times, exchanges and memory by the equations of the paper. The obstacles are checked before.
void predictPaper(const CostTerms& terms, const PaperForm& form, Prediction& prediction);
/// The obstacle of a strategy in paper mode, apart from memory.
Obstacle paperObstacle(const CostTerms& terms, const Prediction& prediction);
/// Fills in the same for a plan of this program: exact mode.
void predictRun(const CostTerms& terms, const ProgramRun& run, Prediction& prediction);
/// Why this program cannot divide the layers of a network like this, which it has refused to do.
Obstacle partsObstacle(const CostTask& task, const Prediction& prediction);

} // namespace partita
