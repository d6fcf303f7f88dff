#include "placed_stages.hpp"

#include "partita/config/text.hpp"

namespace partita {

namespace {

std::vector<std::int64_t> idsOf(const PlacementTask& task, const DevicePlan& plan, const PlacedStage& stage) {
  std::vector<std::int64_t> ids;
  for (const int layer : stage.layers) ids.push_back(task.graphs[plan.graph].layers[layer].id);
  return ids;
}

std::string remarksOn(const PlacementTask& task, const PlacedStage& stage) {
  std::vector<std::string> remarks;
  if (task.node_devices > 1 && !stage.opens_node) remarks.emplace_back("same node");
  if (stage.options.recompute && task.choose.recompute) remarks.emplace_back("recomputes");
  if (stage.options.shard) remarks.emplace_back("shards its optimiser");
  if (stage.options.offload) remarks.emplace_back("offloads its optimiser");
  return remarks.empty() ? "" : " (" + joined(remarks, ", ") + ")";
}

} // namespace

std::vector<JsonObject> stageObjects(const PlacementTask& task, const DevicePlan& plan) {
  std::vector<JsonObject> stages;
  for (const PlacedStage& stage : plan.stages) {
    JsonObject object;
    object.add("nodes", idsOf(task, plan, stage));
    object.add("devicesForStage", stage.devices);
    if (task.node_devices > 1) object.add("opensNode", stage.opens_node);
    if (task.choose.any()) {
      object.add("activationRecomputation", stage.options.recompute);
      object.add("shardedOptimizer", stage.options.shard);
      object.add("offload", stage.options.offload);
    }
    stages.push_back(object);
  }
  return stages;
}

std::vector<std::string> stageLines(const PlacementTask& task, const DevicePlan& plan) {
  std::vector<std::string> lines{"stage  devices  layers"};
  for (const PlacedStage& stage : plan.stages) {
    lines.push_back(formatted("%5zu  %7lld  ", lines.size(), static_cast<long long>(stage.devices)) +
                    joined(idsOf(task, plan, stage), ", ") + remarksOn(task, stage));
  }
  return lines;
}

} // namespace partita
