#pragma once

#include "partita/plan/cost/cost_model.hpp"

namespace partita {

/// The input of both modes.
struct CostTerms {
  const CostTask& task;
  const Cluster& cluster;
  const std::vector<LayerTime>& times; ///< one per row of the task
  const KernelTimes& kernels;          ///< exact mode
};

/// The rows that a division of channels divides: convolutions, or fully connected layers if there are none.
/// Indices of rows.
std::vector<std::size_t> dividedRows(const std::vector<LayerCost>& layers);
/// The convolutions that a division of places divides: the first `spatial_layers` of them.
std::vector<std::size_t> spatialRows(const CostTask& task);
/// Index of the first row with parameters, which needs no gradient of its input.
std::size_t firstTrained(const std::vector<LayerCost>& layers);

/// A prediction with its grid of ranks, batch and steps set. `grid` empty: as the task says; for hybrid
/// strategies, `parts` are then the ranks of a node.
Prediction startPrediction(const CostTerms& terms, CostStrategy strategy, std::int64_t ranks,
                           const std::optional<RankGrid>& grid);

/// The link of a ring of ranks, if all rings of its kind send at once.
struct RingPath {
  const Link& link;
  double flows; ///< flows that share the most loaded cable between nodes
};

/// Rings of `size` of the `ranks`, with `stride` from one rank to the next; consecutive ranks fill a node.
/// Flows are counted for at most 4096 ranks, because they repeat.
RingPath ringPath(const Cluster& cluster, std::int64_t ranks, std::int64_t size, std::int64_t stride);

/// FLOPs of a training step per sample, without recomputation.
double trainingFlops(const std::vector<LayerCost>& layers);
/// Seconds per FLOP on one rank, averaged over the network.
double secondsPerFlop(const CostTerms& terms);

/// Divides the cuttable layers of a network into `stages` consecutive groups of nearly equal time: the stage
/// of each row. There must be at least as many layers as stages.
std::vector<std::int64_t> stagesOfRows(const CostTerms& terms, std::int64_t stages);

/// Number of microbatches of a pipeline with this many stages.
std::int64_t segmentsOf(const CostTask& task, std::int64_t stages);

/// Fills in times, exchanges and memory by the equations of the paper. Obstacles have been checked before.
void predictPaper(const CostTerms& terms, Prediction& prediction);
/// The obstacle of a strategy in paper mode, apart from memory.
Obstacle paperObstacle(const CostTerms& terms, const Prediction& prediction);
/// Exact mode: fills in the same for a plan of this program.
void predictRun(const CostTerms& terms, const ProgramRun& run, Prediction& prediction);
/// Why this program has refused to divide the layers of a network like this.
Obstacle partsObstacle(const CostTask& task, const Prediction& prediction);

} // namespace partita
