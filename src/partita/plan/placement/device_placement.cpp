#include "partita/plan/placement/device_placement.hpp"

#include "partita/config/user_error.hpp"
#include "partita/plan/placement/placement_search.hpp"

namespace partita {

namespace {

std::string bytesText(double bytes) {
  return std::to_string(static_cast<std::int64_t>(bytes));
}

/// The first of the limits that leaves no plan for the graph.
std::string limitOf(const PlacementTask& task, const LayerGraph& graph) {
  const std::string degree = "tensor degree " + std::to_string(graph.tensor_degree) + ": ";
  const detail::StageCosts costs(task, graph);
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    BitSet alone(graph.layers.size());
    alone.add(i);
    const detail::StageCost cost = costs.of(alone);
    const std::string layer = "layer " + std::to_string(graph.layers[i].id);
    if (costs.devicesOf(cost) > task.devices)
      return degree + layer + " needs " + std::to_string(graph.tensor_degree) + " devices of " +
             std::to_string(task.devices);
    if (costs.lastFit(cost) == 0)
      return degree + layer + " needs " + bytesText(cost.memory) + " bytes on a device of " +
             bytesText(task.memory);
  }
  return degree + "no cut for " + std::to_string(task.devices) + " devices of " + bytesText(task.memory) +
         " bytes has room for the micro-batches in flight";
}

} // namespace

DevicePlan placeLayers(const PlacementTask& task) {
  DevicePlan best;
  for (std::size_t i = 0; i < task.graphs.size(); ++i) {
    const DevicePlan found = detail::PlacementSearch(task, i).fastest();
    if (found.feasible && (!best.feasible || found.time < best.time)) best = found;
  }
  if (best.feasible) return best;
  for (const LayerGraph& graph : task.graphs)
    best.limit += (best.limit.empty() ? "" : "; ") + limitOf(task, graph);
  return best;
}

} // namespace partita
