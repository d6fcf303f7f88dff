#include "partita/plan/run_flops.hpp"

#include "partita/plan/strategy_plan.hpp"

namespace partita {

namespace {

/// Per sample.
double recomputedFlops(const std::vector<LayerPlan>& layers) {
  double sum = 0.0;
  for (const LayerPlan& layer : layers) sum += layer.recomputedFlops();
  return sum;
}

} // namespace

RunFlops runFlops(const RunConfig& config, const Partition& partition, const RunLength& length) {
  const std::int64_t batch = config.training.batch;
  const auto samples_of = [batch](std::int64_t steps) {
    return static_cast<double>(steps) * static_cast<double>(batch);
  };
  const bool whole = planOf(config.strategy).gradientsCross();
  const double joined = whole ? length.samples(batch) : samples_of(length.recovery_steps),
               by_stage = whole ? 0.0 : samples_of(length.steps);
  RunFlops flops;
  flops.hardware = joined * partition.joint.flops;
  double repeated = 0.0;
  for (const StagePlan& stage : partition.stages) {
    flops.hardware += by_stage * partition.local[static_cast<std::size_t>(stage.index)].flops;
    repeated += joined * recomputedFlops(stage.layers) + by_stage * recomputedFlops(stage.allLayers());
  }
  flops.model = flops.hardware - repeated;
  return flops;
}

} // namespace partita
