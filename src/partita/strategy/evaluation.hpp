#pragma once

#include "partita/data/dataset.hpp"
#include "partita/strategy/local_stage.hpp"
#include "partita/strategy/observer.hpp"

namespace partita {

/// Forward only through the joined network across ranks: each stage decodes on the inputs it really gets,
/// replicas share the samples out. Collective. The same result on every rank, a value a stage.
struct Evaluation {
  std::vector<double> accuracy, loss;
};
Evaluation evaluateJoined(const ExecSpace& space, const RunConfig& config, Grid& grid,
                          const std::vector<std::unique_ptr<LocalStage>>& stages, const DataSets& sets,
                          const Dataset& set);

} // namespace partita
