#include "partita/plan/cost/program.hpp"

#include "partita/config/validate.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/running_statistics.hpp"
#include "partita/plan/strategies/cost_strategy.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>

namespace partita {

namespace {

/// Do stages train one after another? Then only one has its optimiser and its batches.
bool takesTurns(const StrategySection& strategy) {
  RunLength length;
  planOf(strategy).setPhases(strategy, length);
  return length.turns > 1;
}

} // namespace

double ProgramRun::memory() const {
  std::vector<StageMemory> of_stages;
  of_stages.reserve(grid.stages);
  for (int stage = 0; stage < grid.stages; ++stage)
    of_stages.push_back(stageMemory(config, partition, grid, stage, device));
  return memory(of_stages);
}

double ProgramRun::memory(const std::vector<StageMemory>& of_stages) const {
  const bool turns = takesTurns(config.strategy);
  std::int64_t most = 0;
  for (int group = 0; group < grid.groups; ++group) {
    std::int64_t bytes = 0, largest_turn = 0;
    for (int stage = grid.first_stage[group]; stage < grid.first_stage[group + 1]; ++stage) {
      const StageMemory& memory = of_stages[stage];
      const std::int64_t turn = turns ? memory.optimiser + memory.buffers : 0;
      bytes += memory.total() - turn;
      largest_turn = std::max(largest_turn, turn);
    }
    most = std::max(most, bytes + largest_turn);
  }
  return static_cast<double>(most);
}

ProgramRun Program::run(const StrategySection& strategy, std::int64_t ranks, std::int64_t batch,
                        double most_bytes) const {
  ProgramRun run{_deck, {}, {}, _device};
  run.config.strategy = strategy;
  run.config.training.batch = batch;
  Diagnostics diagnostics(Source::deck("the deck"));
  validateRanks(run.config, diagnostics);
  diagnostics.throwIfAny();
  run.config = effective(run.config);
  run.partition = planPartition(run.config, _layers, _layers.back().classes, _device.real_bytes, most_bytes);
  run.grid = planGrid(run.config.strategy, run.partition, static_cast<int>(ranks));
  checkStatistics(run.config, run.partition, run.grid);
  return run;
}

ProgramRun Program::whole(std::int64_t batch) const {
  return run(sectionFor({}, _deck.strategy), 1, batch);
}

} // namespace partita
