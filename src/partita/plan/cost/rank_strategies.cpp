#include "partita/plan/cost/rank_strategies.hpp"

#include "partita/plan/strategies/cost_strategy.hpp"

#include <algorithm>

namespace partita {

namespace {

/// The strategies of a network that is cut. Parts need a fixed order of microbatches; gpipe is left out
/// because it keeps more activations than 1f1b without being faster.
std::vector<CostStrategy> stagedStrategies(std::int64_t parts) {
  if (parts > 1)
    return {CostStrategy::pipeline_1f1b, CostStrategy::pipeline_1f1b_eager, CostStrategy::sil_free,
            CostStrategy::sil_frozen, CostStrategy::sil_relay};
  return {CostStrategy::pipeline_message_driven,
          CostStrategy::pipeline_1f1b,
          CostStrategy::pipeline_1f1b_eager,
          CostStrategy::pipeline_gpipe,
          CostStrategy::sil_free,
          CostStrategy::sil_frozen,
          CostStrategy::sil_relay};
}

std::vector<CostStrategy> wholeStrategies(const RankGrid& grid, Split split) {
  if (grid.parts == 1 && grid.replicas == 1) return {CostStrategy::serial};
  StrategySection section;
  section.kind = StrategyKind::joint;
  section.parts = grid.parts;
  section.replicas = grid.replicas;
  section.split = split;
  std::vector<CostStrategy> found{costStrategy(section)};
  if (grid.parts == 1) found.push_back(CostStrategy::local_sgd);
  return found;
}

std::vector<std::int64_t> microbatchesFor(const CostTask& task, CostStrategy strategy, const RankGrid& grid) {
  if (!isPipeline(strategy)) return {keptMicrobatches(strategy, task.program->deck().strategy)};
  if (task.segments > 0) return {task.segments};
  std::vector<std::int64_t> counts;
  for (const std::int64_t factor : {1, 2, 4, 8})
    if (factor == 1 || asReal(factor * grid.stages * grid.replicas) <= task.batch)
      counts.push_back(factor * grid.stages);
  return counts;
}

void addChoices(const CostTask& task, const RankGrid& grid, Split split, bool local,
                std::vector<RankChoice>& choices) {
  for (const CostStrategy strategy :
       grid.stages > 1 ? stagedStrategies(grid.parts) : wholeStrategies(grid, split)) {
    if (!local && mayChangeAccuracy(strategy)) continue;
    for (const std::int64_t count : microbatchesFor(task, strategy, grid))
      choices.push_back({strategy, grid, grid.parts > 1 ? std::optional(split) : std::nullopt, count});
  }
}

/// All grids of this many ranks.
std::vector<RankChoice> allChoices(const CostTask& task, std::int64_t ranks, bool local) {
  const std::vector<Split> splits{Split::grid, Split::spatial, Split::filter, Split::channel};
  std::vector<RankChoice> choices;
  for (std::int64_t stages = 1; stages <= std::min(ranks, cuttableLayers(task.layers)); ++stages) {
    for (std::int64_t parts = 1; parts <= ranks / stages; ++parts) {
      if (ranks % (stages * parts) != 0) continue;
      const RankGrid grid{stages, ranks / (stages * parts), parts};
      for (const Split split : splits)
        if (parts > 1 || split == splits.front()) addChoices(task, grid, split, local, choices);
    }
  }
  return choices;
}

} // namespace

std::vector<Prediction> rankStrategies(const CostTask& task, const Cluster& cluster, std::int64_t ranks,
                                       bool local) {
  const CostModel model(task, cluster, CostMode::exact);
  const std::vector<RankChoice> choices = allChoices(task, ranks, local);
  std::vector<Prediction> predictions;
  predictions.reserve(choices.size());
  for (const RankChoice& choice : choices) predictions.push_back(model.predict(choice));
  std::stable_sort(predictions.begin(), predictions.end(), [](const Prediction& a, const Prediction& b) {
    if (a.feasible() != b.feasible()) return a.feasible();
    return a.feasible() && a.epochSeconds() < b.epochSeconds();
  });
  return predictions;
}

} // namespace partita
