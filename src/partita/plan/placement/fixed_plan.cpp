#include "partita/plan/placement/placement_search.hpp"

#include <algorithm>

namespace partita {

namespace {

/// How many replicas fit if their stages fill nodes one after another; none if a stage does not fit on its
/// node.
detail::Copies roomOf(const PlacementTask& task, const std::vector<PlacedStage>& stages) {
  std::int64_t nodes = 0, used = 0;
  for (const PlacedStage& stage : stages) {
    const std::int64_t whole = (stage.devices + task.node_devices - 1) / task.node_devices;
    if (!stage.opens_node && (nodes == 0 || used + stage.devices > task.node_devices)) return {0, 1};
    nodes += stage.opens_node ? whole : 0;
    used = (stage.opens_node ? 0 : used) + stage.devices;
    if (whole > 1) used = task.node_devices;
  }
  return detail::roomFor(task.devices, task.node_devices, nodes, used);
}

/// The layers of each stage of a fixed plan, from the first. Shares are rounded up, so later stages may be
/// empty. The last one also gets whatever follows the transformer layers.
std::vector<std::vector<int>> stagesOf(const FixedPlan& fixed, const std::vector<int>& order) {
  const std::int64_t share = (fixed.transformer_layers + fixed.stages - 1) / fixed.stages;
  const auto count = static_cast<std::int64_t>(order.size());
  std::vector<std::vector<int>> stages(fixed.stages);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t layer = std::max<std::int64_t>(0, i - fixed.before);
    stages[layer < fixed.transformer_layers ? layer / share : fixed.stages - 1].push_back(order[i]);
  }
  return stages;
}

} // namespace

std::optional<double> timeOfPlan(const PlacementTask& task, std::size_t graph,
                                 const std::vector<PlacedStage>& stages, std::int64_t replicas) {
  const LayerGraph& layers = task.graphs[graph];
  const detail::StageCosts costs(task, layers);
  const detail::Copies room = roomOf(task, stages);
  if (replicas > std::min({task.microbatches, task.most_replicas, room.replicas})) return std::nullopt;
  const detail::Copies copies{replicas, std::min(replicas, room.per_node)};
  std::vector<std::size_t> stage_of(layers.layers.size());
  double slowest = 0.0, first_bytes = 0.0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    BitSet inside(layers.layers.size());
    for (const int layer : stages[i].layers) {
      inside.add(layer);
      stage_of[layer] = i;
    }
    const detail::StageCost cost = costs.of(inside);
    const detail::StagePosition position{static_cast<std::int64_t>(stages.size() - i), !stages[i].opens_node,
                                         i + 1 < stages.size() && !stages[i + 1].opens_node};
    StageOptions options = stages[i].options;
    options.recompute = options.recompute || task.recompute;
    if (position.number > costs.lastFit(cost, options, replicas) || costs.devicesOf(cost) > stages[i].devices)
      return std::nullopt;
    slowest = std::max(slowest, costs.load(cost, options, position, copies));
    if (i == 0) first_bytes = cost.parameter_bytes;
  }
  for (const LayerEdge& edge : layers.edges)
    if (stage_of[edge.from] > stage_of[edge.to]) return std::nullopt;
  return costs.batchTime(slowest, static_cast<std::int64_t>(stages.size()), copies, first_bytes);
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
  if (fixed.stages > std::min(count, fixed.transformer_layers)) return std::nullopt;
  const DevicePlan plan =
      detail::PlacementSearch(task, found - task.graphs.begin(), stagesOf(fixed, order), fixed.replicas)
          .fastest();
  return plan.feasible ? std::optional<double>(plan.time) : std::nullopt;
}

} // namespace partita
