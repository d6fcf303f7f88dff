#include "partita/plan/running_statistics.hpp"

#include "partita/config/user_error.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/strategy_plan.hpp"

namespace partita {

namespace {

bool pipelines(const StrategySection& strategy) {
  return planOf(strategy).usesMicrobatches(strategy);
}

/// Rows in the smallest pass of a replica.
std::int64_t fewestRows(const RunConfig& config, const GridPlan& grid) {
  const std::int64_t share = config.training.batch / grid.replicas;
  return pipelines(config.strategy) ? share / microbatchesOf(config.strategy, share) : share;
}

/// The mean of one value is that value, so nothing before the layer would ever learn.
void checkValues(const LayerPlan& layer, std::int64_t rows, const GridPlan& grid) {
  const std::int64_t channels = layer.statisticsShapes().front().size(),
                     replicas = layer.rules().acrossReplicas(layer) ? grid.replicas : 1,
                     values = rows * replicas * layer.inputs() / channels;
  if (values > 1) return;
  throw UserError(layer.entry + ": " + layer.spec.type +
                  " would have a single value per channel at a time; use a larger training/batch, or fewer "
                  "replicas or microbatches");
}

/// Sums over replicas only match if all replicas reach them in the same order.
void checkOrder(const LayerPlan& layer, const RunConfig& config, const GridPlan& grid) {
  const StrategySection& strategy = config.strategy;
  if (!layer.rules().acrossReplicas(layer) || grid.replicas == 1 || !pipelines(strategy) ||
      strategy.pipeline.microbatches == 1)
    return;
  if (grid.groups > 1 && strategy.pipeline.schedule == PipelineSchedule::message_driven)
    throw UserError(layer.entry + ": " + layer.spec.type +
                    " over all replicas needs a fixed order of the microbatches; use strategy/schedule = "
                    "\"1f1b\", \"1f1b-eager\" or \"gpipe\"");
  const std::int64_t batch = config.training.batch;
  if (batch % grid.replicas != 0 && batch / grid.replicas < strategy.pipeline.microbatches)
    throw UserError(layer.entry + ": " + layer.spec.type +
                    " over all replicas needs the same number of microbatches in each replica; use a "
                    "training/batch that the " +
                    std::to_string(grid.replicas) + " replicas can share evenly");
}

} // namespace

void checkStatistics(const RunConfig& config, const Partition& partition, const GridPlan& grid) {
  for (const StagePlan& stage : partition.stages) {
    for (const std::vector<LayerPlan>* layers : {&stage.layers, &stage.decoder, &stage.head}) {
      for (const LayerPlan* layer : leavesOf(*layers)) {
        if (layer->statistics() == 0) continue;
        checkValues(*layer, fewestRows(config, grid), grid);
        checkOrder(*layer, config, grid);
      }
    }
  }
}

} // namespace partita
