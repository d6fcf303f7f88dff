#include "partita/plan/cost/program_memory.hpp"

#include <algorithm>

namespace partita {

namespace {

/// The deck for stages that learn together, whatever its strategy: what a section says by default.
RunConfig learningTogether(RunConfig config) {
  StrategySection together;
  together.wire = config.strategy.wire;
  config.strategy = together;
  return config;
}

} // namespace

ProgramMemory::ProgramMemory(RunConfig config, std::vector<LayerPlan> layers)
    : _config(learningTogether(std::move(config))), _layers(std::move(layers)),
      _whole(makeStage(_config.strategy, _layers, 0, static_cast<std::int64_t>(_layers.size()), 0, 1)) {}

StageMemory ProgramMemory::ofReplica(std::int64_t samples, std::int64_t replicas) const {
  RunConfig config = _config;
  config.training.batch = samples * replicas;
  StagePlace place;
  place.replicas = static_cast<int>(replicas);
  return stageMemory(_whole, config, place);
}

double ProgramMemory::ofPipeline(const std::vector<std::int64_t>& first_layers, std::int64_t segments,
                                 PipelineSchedule schedule, std::int64_t batch) const {
  RunConfig config = _config;
  config.training.batch = batch;
  config.strategy.pipeline.microbatches = segments;
  config.strategy.pipeline.schedule = schedule;
  const int stages = static_cast<int>(first_layers.size());
  std::int64_t most = 0;
  for (int i = 0; i < stages; ++i) {
    const std::int64_t end = i + 1 < stages ? first_layers[i + 1] : static_cast<std::int64_t>(_layers.size());
    const StagePlan stage = makeStage(config.strategy, _layers, first_layers[i], end, i, stages);
    most = std::max(most, stageMemory(stage, config, {i, stages, 1, true, true}).total());
  }
  return static_cast<double>(most);
}

} // namespace partita
