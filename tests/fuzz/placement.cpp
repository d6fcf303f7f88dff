// Reads a file of operators and one of layers; what is accepted must be small and without cycles.
#include "partita/plan/placement/read_tasks.hpp"

#include <algorithm>
#include <cmath>

#include "fuzz.hpp"

using namespace partita;

namespace {

/// Whether following the edges backwards from any node ends.
template <class Edges>
bool hasOrder(std::size_t count, const Edges& edges) {
  std::vector<char> done(count, 0);
  for (bool found = true; found;) {
    found = false;
    for (std::size_t i = 0; i < count; ++i) {
      const bool ready = std::all_of(edges.begin(), edges.end(), [&](const auto& edge) {
        return edge.second != static_cast<int>(i) || done[edge.first] != 0;
      });
      if (done[i] != 0 || !ready) continue;
      done[i] = 1;
      found = true;
    }
  }
  return std::all_of(done.begin(), done.end(), [](char node) { return node != 0; });
}

void check(const ScheduleTask& task) {
  fuzz::require(!task.operators.empty() && task.tensor_cores > 0 && task.vector_cores > 0,
                "nothing to schedule");
  for (const Operator& op : task.operators)
    fuzz::require(op.latency >= 0.0 && std::isfinite(op.latency) && op.intra_op_latency >= 0.0 &&
                      std::isfinite(op.intra_op_latency),
                  "latency");
  fuzz::require(hasOrder(task.operators.size(), task.edges), "cycle of operators");
  if (task.operators.size() > 8) return;
  const OperatorSchedule schedule = scheduleOperators(task, {ScheduleEngine::built_in, 0.5});
  fuzz::require(faultOf(task, schedule).empty(), faultOf(task, schedule));
}

void check(const PlacementTask& task) {
  for (const LayerGraph& graph : task.graphs) {
    std::vector<std::pair<int, int>> edges;
    for (const LayerEdge& edge : graph.edges) edges.emplace_back(edge.from, edge.to);
    fuzz::require(hasOrder(graph.layers.size(), edges), "cycle of layers");
    if (graph.layers.size() > 8) return;
  }
  const DevicePlan plan = placeLayers(task);
  fuzz::require(plan.feasible == plan.limit.empty(), "neither a plan nor a limit");
  if (plan.feasible)
    fuzz::require(timeOfPlan(task, plan.graph, plan.stages, plan.replicas).has_value(),
                  "a plan does not fit");
  timeOfFixedPlan(task);
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFile file;
  file.assign(data, size);
  ScheduleTask schedule;
  if (fuzz::accepted([&] { schedule = readScheduleTask(file.path()); })) check(schedule);
  PlacementTask placement;
  if (fuzz::accepted([&] { placement = readPlacementTask(file.path()); })) check(placement);
  return 0;
}
