#include "partita/config/user_error.hpp"
#include "partita/plan/placement/device_placement.hpp"
#include "partita/plan/placement/placement_search.hpp"

#include <algorithm>
#include <limits>

namespace partita {

namespace {

constexpr std::size_t most_tried_layers = 12;
constexpr std::int64_t most_microbatches = 1000, most_plans = 10000000;

/// Cuts a graph in all possible ways, and evaluates each plan as a whole.
class AllCuts {
 public:
  AllCuts(const PlacementTask& task, std::size_t graph)
      : _task(task), _graph(graph), _costs(task, task.graphs[graph]),
        _sets(detail::successorClosedSets(_costs)) {}

  void improve(DevicePlan& best) { cut(_sets.size() - 1, best); }

 private:
  void cut(std::size_t set, DevicePlan& best) {
    if (set == 0) return fillNodes(1, best);
    for (std::size_t rest = 0; rest < set; ++rest) {
      if (!_sets[set].holds(_sets[rest])) continue;
      BitSet members(_costs.order().size());
      PlacedStage stage;
      for (const int layer : _costs.order()) {
        if (!_sets[set].has(layer) || _sets[rest].has(layer)) continue;
        stage.layers.push_back(layer);
        members.add(layer);
      }
      const detail::StageCost cost = _costs.of(members);
      stage.devices = _costs.devicesOf(cost);
      _stages.push_back(std::move(stage));
      _stage_costs.push_back(cost);
      cut(rest, best);
      _stages.pop_back();
      _stage_costs.pop_back();
    }
  }

  /// Each stage from `next` on either opens a node or not.
  void fillNodes(std::size_t next, DevicePlan& best) {
    if (next >= _stages.size()) return price(best);
    for (const bool opens_node : {true, false}) {
      if (!opens_node && !_costs.hasNodes()) continue;
      _stages[next].opens_node = opens_node;
      fillNodes(next + 1, best);
    }
  }

  void price(DevicePlan& best) {
    const std::int64_t most = std::min({_task.microbatches, _task.most_replicas, _task.devices});
    for (std::int64_t replicas = 1; replicas <= most; ++replicas) {
      // The stages determine how many replicas a node has; this determines the options, and they determine
      // the time.
      for (std::int64_t each = 1; each <= std::min(replicas, _task.node_devices); ++each) {
        if (++_tried > most_plans)
          throw UserError("--brute-force: there are more than " + std::to_string(most_plans) + " plans");
        if (!choose({replicas, each})) continue;
        const std::optional<double> time = timeOfPlan(_task, _graph, _stages, replicas);
        if (time && (!best.feasible || *time < best.time))
          best = {true, _graph, _stages, replicas, *time, {}};
        if (!_costs.dependsOnReplicas()) break;
      }
    }
  }

  /// Only the slowest stage counts, so each stage uses the options that are best for itself.
  bool choose(const detail::Copies& copies) {
    for (std::size_t i = 0; i < _stages.size(); ++i) {
      const bool near_after = i + 1 < _stages.size() && !_stages[i + 1].opens_node;
      const detail::StageChoice choice = _costs.best(
          _stage_costs[i],
          {static_cast<std::int64_t>(_stages.size() - i), !_stages[i].opens_node, near_after}, copies);
      if (!(choice.load < std::numeric_limits<double>::infinity())) return false;
      _stages[i].options = choice.options;
    }
    return true;
  }

  const PlacementTask& _task;
  std::size_t _graph;
  detail::StageCosts _costs;
  std::vector<BitSet> _sets;
  std::vector<PlacedStage> _stages;
  std::vector<detail::StageCost> _stage_costs;
  std::int64_t _tried = 0;
};

} // namespace

DevicePlan placeByBruteForce(const PlacementTask& task) {
  const bool deep = std::any_of(task.graphs.begin(), task.graphs.end(), [](const LayerGraph& graph) {
    return graph.layers.size() > most_tried_layers;
  });
  if (deep || task.microbatches > most_microbatches)
    throw UserError("--brute-force takes at most " + std::to_string(most_tried_layers) + " layers and " +
                    std::to_string(most_microbatches) + " microbatches");
  DevicePlan best;
  for (std::size_t i = 0; i < task.graphs.size(); ++i) AllCuts(task, i).improve(best);
  if (!best.feasible) best.limit = placeLayers(task).limit;
  return best;
}

} // namespace partita
