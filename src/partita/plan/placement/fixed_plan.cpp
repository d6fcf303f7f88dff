#include "partita/plan/placement/stage_cost.hpp"

#include <algorithm>

namespace partita {

std::optional<double> timeOfPlan(const PlacementTask& task, std::size_t graph,
                                 const std::vector<PlacedStage>& stages, std::int64_t replicas) {
  const LayerGraph& layers = task.graphs[graph];
  const detail::StageCosts costs(task, layers);
  std::vector<std::size_t> stage_of(layers.layers.size());
  double slowest = 0.0, first_bytes = 0.0;
  std::int64_t devices = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    BitSet inside(layers.layers.size());
    for (const int layer : stages[i].layers) {
      inside.add(layer);
      stage_of[layer] = i;
    }
    const detail::StageCost cost = costs.of(inside);
    const auto from_end = static_cast<std::int64_t>(stages.size() - i);
    if (from_end > costs.lastFit(cost)) return std::nullopt;
    devices += costs.devicesOf(cost);
    slowest = std::max(slowest, cost.loadAt(from_end));
    if (i == 0) first_bytes = cost.parameter_bytes;
  }
  for (const LayerEdge& edge : layers.edges)
    if (stage_of[edge.from] > stage_of[edge.to]) return std::nullopt;
  if (replicas > std::min(task.microbatches, task.most_replicas) || devices > task.devices / replicas)
    return std::nullopt;
  return costs.batchTime(slowest, static_cast<std::int64_t>(stages.size()), replicas, first_bytes);
}

std::optional<double> timeOfFixedPlan(const PlacementTask& task) {
  if (!task.fixed) return std::nullopt;
  const FixedPlan& fixed = *task.fixed;
  const auto found = std::find_if(task.graphs.begin(), task.graphs.end(), [&](const LayerGraph& graph) {
    return graph.tensor_degree == fixed.tensor_degree;
  });
  if (found == task.graphs.end()) return std::nullopt;
  const std::vector<int> order = detail::StageCosts(task, *found).order();
  const auto count = static_cast<std::int64_t>(order.size());
  const std::int64_t share = fixed.transformer_layers / fixed.stages;
  if (share == 0 || fixed.stages > count || (fixed.stages - 1) * share >= count) return std::nullopt;
  std::vector<PlacedStage> stages(fixed.stages);
  for (std::int64_t i = 0; i < count; ++i)
    stages[std::min(i / share, fixed.stages - 1)].layers.push_back(order[i]);
  return timeOfPlan(task, found - task.graphs.begin(), stages, fixed.replicas);
}

} // namespace partita
