#pragma once

#include "partita/plan/cost/cost_model.hpp"

namespace partita {

/// What both modes compute from.
struct CostTerms {
  const CostTask& task;
  const Cluster& cluster;
  const std::vector<LayerTime>& times; ///< one per row of the task
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

/// What the strategy needs besides memory; `divided` are the rows that are divided, for limits of channels.
Obstacle channelObstacle(const CostTask& task, const std::vector<std::size_t>& divided, CostStrategy strategy,
                         std::int64_t parts);

/// The cuttable layers of a network in `stages` consecutive groups of nearly equal time: for each row its
/// stage. There must be at least as many layers as stages.
std::vector<std::int64_t> stagesOfRows(const CostTerms& terms, std::int64_t stages);
std::int64_t cuttableLayers(const std::vector<LayerCost>& layers);

/// Number of microbatches of a pipeline of so many stages.
std::int64_t segmentsOf(const CostTask& task, std::int64_t stages);

/// Fill in times, exchanges and memory. The obstacles are checked before.
void predictPaper(const CostTerms& terms, const PaperForm& form, Prediction& prediction);
void predictExact(const CostTerms& terms, Prediction& prediction);
/// The obstacle of a strategy in each mode, apart from memory.
Obstacle paperObstacle(const CostTerms& terms, const Prediction& prediction);
Obstacle exactObstacle(const CostTerms& terms, const Prediction& prediction);

} // namespace partita
