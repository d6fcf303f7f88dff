#include "partita/plan/cost/program.hpp"

#include "partita/plan/strategy_plan.hpp"

#include <algorithm>

namespace partita {

namespace {

RunConfig jointly(RunConfig deck) {
  StrategySection joint;
  joint.wire = deck.strategy.wire;
  deck.strategy = joint;
  return deck;
}

} // namespace

double ProgramRun::memory() const {
  std::int64_t most = 0;
  for (int group = 0; group < grid.groups; ++group) {
    std::int64_t bytes = 0;
    for (int stage = grid.first_stage[group]; stage < grid.first_stage[group + 1]; ++stage)
      bytes += stageMemory(config, partition, grid, stage).total();
    most = std::max(most, bytes);
  }
  return static_cast<double>(most);
}

Program::Program(RunConfig deck, std::vector<LayerPlan> layers)
    : _deck(std::move(deck)), _layers(std::move(layers)), _joint(jointly(_deck)),
      _whole(makeStage(_joint.strategy, _layers, 0, static_cast<std::int64_t>(_layers.size()), 0, 1)) {}

ProgramRun Program::run(const StrategySection& strategy, std::int64_t ranks) const {
  ProgramRun run{_deck, {}, {}};
  run.config.strategy = strategy;
  run.config = effective(run.config);
  run.partition = planPartition(run.config, _layers, _layers.back().classes);
  run.grid = planGrid(run.config.strategy, run.partition, static_cast<int>(ranks));
  return run;
}

StageMemory Program::ofReplica(std::int64_t samples, std::int64_t replicas) const {
  RunConfig config = _joint;
  config.training.batch = samples * replicas;
  StagePlace place;
  place.replicas = static_cast<int>(replicas);
  return stageMemory(_whole, config, place);
}

} // namespace partita
