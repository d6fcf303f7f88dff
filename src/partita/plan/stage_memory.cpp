#include "partita/plan/stage_memory.hpp"

#include "partita/plan/pipeline_plan.hpp"

#include <algorithm>

namespace partita {

bool leavesStepsOut(const RunConfig& config) {
  return config.run.precision != Precision::single || config.strategy.wire != Precision::single;
}

StageMemory stageMemory(const StagePlan& stage, const RunConfig& config, const StageLoad& load,
                        std::int64_t real_bytes) {
  constexpr std::int64_t buffer_sets = 3; // of BucketStream
  const OptimiserSection& optimiser = config.optimiser;
  const bool halves = config.run.precision != Precision::single,
             offloads = optimiser.offload != Offload::none;
  const std::int64_t parameters = stage.parameters(), bytes = parameters * (halves ? 2 : real_bytes);
  const int moments = optimiser.kind != OptimiserKind::sgd ? 2 : optimiser.momentum > 0.0 ? 1 : 0;
  const std::int64_t vectors = moments + (halves ? 1 : 0), // and the masters
      state = vectors * parameters * real_bytes,
                     buffers =
                         buffer_sets * vectors * std::min(optimiser.offload_bucket, parameters) * real_bytes;
  // Two work buffers carry the gradient of the activations backwards.
  const std::int64_t values =
      (load.live * stage.activationValues() + 2 * stage.widest() + load.messages) * load.rows +
      stage.workValues(load.rows) + (halves ? 2 * stage.mostParameters() : 0);
  const std::int64_t statistics = stage.statistics() * (leavesStepsOut(config) ? 2 : 1) * real_bytes;
  return {bytes + statistics, bytes, offloads ? buffers : state, values * real_bytes, offloads ? state : 0};
}

StageLoad stageLoad(const RunConfig& config, const StagePlan& stage, const PlaceOnRank& place,
                    std::int64_t share) {
  const StrategySection& strategy = config.strategy;
  if (usesLabels(strategy)) return {share, 1, 0};
  const std::int64_t microbatches = microbatchesOf(strategy, share);
  const auto window = [&](int group) { return liveWindow(strategy, group, place.groups, microbatches); };
  StageLoad load{microbatchRows(strategy, share), window(place.group), 0};
  if (!stage.first()) load.messages += stage.inputs(); // the gradient
  if (place.first && place.group > 0) load.messages += stage.inputs() * (1 + window(place.group - 1));
  if (place.last && place.group + 1 < place.groups) load.messages += stage.outputs() * (load.live + 2);
  return load;
}

} // namespace partita
