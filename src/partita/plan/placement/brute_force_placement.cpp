#include "partita/config/user_error.hpp"
#include "partita/plan/placement/device_placement.hpp"
#include "partita/plan/placement/placement_search.hpp"

#include <algorithm>

namespace partita {

namespace {

constexpr std::size_t most_tried_layers = 12;
constexpr std::int64_t most_microbatches = 1000;

/// Cuts a graph in all possible ways, and prices each as a whole.
class AllCuts {
 public:
  AllCuts(const PlacementTask& task, std::size_t graph)
      : _task(task), _graph(graph), _costs(task, task.graphs[graph]),
        _sets(detail::successorClosedSets(_costs)) {}

  void improve(DevicePlan& best) { cut(_sets.size() - 1, best); }

 private:
  void cut(std::size_t set, DevicePlan& best) {
    if (set == 0) return price(best);
    for (std::size_t rest = 0; rest < set; ++rest) {
      if (!_sets[set].holds(_sets[rest])) continue;
      PlacedStage stage;
      for (const int layer : _costs.order())
        if (_sets[set].has(layer) && !_sets[rest].has(layer)) stage.layers.push_back(layer);
      const std::vector<PlacedLayer>& layers = _costs.graph().layers;
      const bool parallel = std::any_of(stage.layers.begin(), stage.layers.end(),
                                        [&](int layer) { return layers[layer].tensor_parallel; });
      stage.devices = parallel ? _costs.graph().tensor_degree : 1;
      _stages.push_back(std::move(stage));
      cut(rest, best);
      _stages.pop_back();
    }
  }

  void price(DevicePlan& best) const {
    std::int64_t devices = 0;
    for (const PlacedStage& stage : _stages) devices += stage.devices;
    const std::int64_t most = std::min({_task.microbatches, _task.most_replicas, _task.devices / devices});
    for (std::int64_t replicas = 1; replicas <= most; ++replicas) {
      const std::optional<double> time = timeOfPlan(_task, _graph, _stages, replicas);
      if (!time) return; // no room, whatever the number of replicas
      if (!best.feasible || *time < best.time) best = {true, _graph, _stages, replicas, *time, {}};
    }
  }

  const PlacementTask& _task;
  std::size_t _graph;
  detail::StageCosts _costs;
  std::vector<BitSet> _sets;
  std::vector<PlacedStage> _stages;
};

} // namespace

DevicePlan placeByBruteForce(const PlacementTask& task) {
  const bool deep = std::any_of(task.graphs.begin(), task.graphs.end(), [](const LayerGraph& graph) {
    return graph.layers.size() > most_tried_layers;
  });
  if (deep || task.microbatches > most_microbatches)
    throw UserError("--brute-force takes at most " + std::to_string(most_tried_layers) + " layers and " +
                    std::to_string(most_microbatches) + " micro-batches");
  DevicePlan best;
  for (std::size_t i = 0; i < task.graphs.size(); ++i) AllCuts(task, i).improve(best);
  if (!best.feasible) best.limit = placeLayers(task).limit;
  return best;
}

} // namespace partita
