#include "partita/plan/placement/device_placement.hpp"

#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/placement/placement_search.hpp"

#include <algorithm>
#include <limits>

namespace partita {

namespace {

std::string bytesText(double bytes) {
  return std::to_string(static_cast<std::int64_t>(bytes));
}

/// The first limit that excludes all plans for the graph.
std::string limitOf(const PlacementTask& task, const LayerGraph& graph) {
  const std::string degree = "tensor degree " + std::to_string(graph.tensor_degree) + ": ";
  const detail::StageCosts costs(task, graph);
  const std::int64_t most_replicas = std::min({task.devices, task.microbatches, task.most_replicas});
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    BitSet alone(graph.layers.size());
    alone.add(i);
    const detail::StageCost cost = costs.of(alone);
    const std::string layer = "layer " + std::to_string(graph.layers[i].id);
    if (costs.devicesOf(cost) > task.devices)
      return degree + layer + " needs " + counted(graph.tensor_degree, "device") + " of " +
             std::to_string(task.devices);
    double least = std::numeric_limits<double>::infinity();
    for (const StageOptions& options : costs.options())
      least = std::min(least, costs.memory(cost, options, most_replicas));
    if (least > task.memory)
      return degree + layer + " needs " + bytesText(least) + " bytes on a device of " +
             bytesText(task.memory);
  }
  return degree + "no cut for " + counted(task.devices, "device") + " of " + bytesText(task.memory) +
         " bytes has room for the microbatches in flight";
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
