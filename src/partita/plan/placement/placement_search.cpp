#include "partita/plan/placement/placement_search.hpp"

#include "partita/config/user_error.hpp"

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace partita::detail {

namespace {

constexpr double unreachable = std::numeric_limits<double>::infinity();
constexpr std::size_t most_sets = 40000, most_entries = std::size_t{1} << 26;

[[noreturn]] void refuse(const LayerGraph& graph, const std::string& what) {
  throw UserError("nodes/" + std::to_string(graph.tensor_degree) + ": " + what);
}

} // namespace

std::vector<BitSet> successorClosedSets(const StageCosts& costs) {
  const std::size_t count = costs.order().size();
  std::vector<BitSet> sets{BitSet(count)};
  std::unordered_set<BitSet, BitSet::Hash> known;
  for (std::size_t next = 0; next < sets.size(); ++next) {
    for (std::size_t layer = 0; layer < count; ++layer) {
      const BitSet set = sets[next];
      const std::vector<LayerEdge>& edges = costs.outOf(layer);
      const bool closed =
          std::all_of(edges.begin(), edges.end(), [&](const LayerEdge& edge) { return set.has(edge.to); });
      if (set.has(layer) || !closed) continue;
      BitSet larger = set;
      larger.add(layer);
      if (!known.insert(larger).second) continue;
      if (sets.size() == most_sets)
        refuse(costs.graph(),
               "the layers can be cut in more than 40,000 places; merge layers of parallel branches");
      sets.push_back(std::move(larger));
    }
  }
  return sets;
}

void forEachReplicas(std::int64_t microbatches, std::int64_t most,
                     const std::function<void(std::int64_t)>& visit) {
  most = std::min(most, microbatches);
  for (std::int64_t replicas = 1; replicas <= most;) {
    visit(replicas);
    const std::int64_t each = (microbatches + replicas - 1) / replicas;
    if (each == 1) return;
    replicas = (microbatches + each - 2) / (each - 1);
  }
}

PlacementSearch::PlacementSearch(const PlacementTask& task, std::size_t graph)
    : _task(task), _graph(graph), _costs(task, task.graphs[graph]), _sets(successorClosedSets(_costs)) {
  const std::vector<PlacedLayer>& layers = _costs.graph().layers;
  const auto count = static_cast<std::int64_t>(layers.size());
  const std::int64_t parallel = std::count_if(layers.begin(), layers.end(),
                                              [](const PlacedLayer& layer) { return layer.tensor_parallel; });
  _tensor_is_rare = parallel < count - parallel;
  _most_rare = std::min(parallel, count - parallel);
  _most_stages = std::min(count, task.devices);
  const double entries = static_cast<double>(_sets.size()) * static_cast<double>(_most_stages + 1) *
                         static_cast<double>(_most_rare + 1);
  if (entries > static_cast<double>(most_entries))
    refuse(_costs.graph(),
           "the table of all cuts would need more than 512 MiB; merge layers of parallel branches");
}

std::int64_t PlacementSearch::devices(std::int64_t stages, std::int64_t rare) const {
  const std::int64_t parallel = _tensor_is_rare ? rare : stages - rare;
  return parallel * _costs.graph().tensor_degree + stages - parallel;
}

BitSet PlacementSearch::difference(std::size_t set, std::size_t rest) const {
  BitSet layers(_costs.order().size());
  for (const int layer : _costs.order())
    if (_sets[set].has(layer) && !_sets[rest].has(layer)) layers.add(layer);
  return layers;
}

/// The layers of `set` outside `rest` become the first stage of `set`.
void PlacementSearch::extend(std::size_t set, std::size_t rest) {
  const StageCost cost = _costs.of(difference(set, rest));
  const std::int64_t last = std::min(_costs.lastFit(cost), _most_stages), own = isRare(cost) ? 1 : 0;
  for (std::int64_t stages = 1; stages <= last; ++stages) {
    const double load = cost.loadAt(stages);
    for (std::int64_t rare = own; rare <= _most_rare; ++rare) {
      double& slowest = _slowest[place(set, stages, rare)];
      slowest = std::min(slowest, std::max(_slowest[place(rest, stages - 1, rare - own)], load));
    }
  }
}

void PlacementSearch::fill() {
  _slowest.assign(place(_sets.size(), 0, 0), unreachable);
  _slowest[place(0, 0, 0)] = 0.0;
  for (std::size_t set = 1; set + 1 < _sets.size(); ++set)
    for (std::size_t rest = 0; rest < set; ++rest)
      if (_sets[set].holds(_sets[rest])) extend(set, rest);
}

/// The first stage of the whole network decides on the all-reduce between replicas.
void PlacementSearch::tryFirst(std::size_t rest, DevicePlan& best) {
  const StageCost cost = _costs.of(difference(_sets.size() - 1, rest));
  const std::int64_t last = std::min(_costs.lastFit(cost), _most_stages), own = isRare(cost) ? 1 : 0;
  for (std::int64_t stages = 1; stages <= last; ++stages) {
    for (std::int64_t rare = own; rare <= std::min(_most_rare, stages); ++rare) {
      const Cut cut{rest, stages - 1, rare - own};
      const double slowest = std::max(_slowest[place(rest, cut.stages, cut.rare)], cost.loadAt(stages));
      if (slowest == unreachable) continue;
      const std::int64_t most_replicas = std::min(_task.most_replicas, _task.devices / devices(stages, rare));
      forEachReplicas(_task.microbatches, most_replicas, [&](std::int64_t replicas) {
        const double time = _costs.batchTime(slowest, stages, replicas, cost.parameter_bytes);
        if (best.feasible && time >= best.time) return;
        best = {true, _graph, {}, replicas, time, {}};
        _first = cut;
      });
    }
  }
}

/// The first cut with which the stages of a set are as fast as the table says.
std::size_t PlacementSearch::nextCut(std::size_t set, std::int64_t stages, std::int64_t rare) const {
  std::size_t rest = 0;
  for (; rest < set; ++rest) {
    if (!_sets[set].holds(_sets[rest])) continue;
    const StageCost cost = _costs.of(difference(set, rest));
    const std::int64_t own = isRare(cost) ? 1 : 0;
    if (own > rare || stages > _costs.lastFit(cost)) continue;
    const double slowest = std::max(_slowest[place(rest, stages - 1, rare - own)], cost.loadAt(stages));
    if (slowest == _slowest[place(set, stages, rare)]) break;
  }
  return rest;
}

PlacedStage PlacementSearch::stageOf(std::size_t set, std::size_t rest) const {
  const BitSet members = difference(set, rest);
  PlacedStage stage;
  for (const int layer : _costs.order())
    if (members.has(layer)) stage.layers.push_back(layer);
  stage.devices = _costs.devicesOf(_costs.of(members));
  return stage;
}

std::vector<PlacedStage> PlacementSearch::stages() const {
  std::vector<PlacedStage> stages{stageOf(_sets.size() - 1, _first.rest)};
  Cut cut = _first;
  while (cut.stages > 0) {
    const std::size_t rest = nextCut(cut.rest, cut.stages, cut.rare);
    const int own = isRare(_costs.of(difference(cut.rest, rest))) ? 1 : 0;
    stages.push_back(stageOf(cut.rest, rest));
    cut = {rest, cut.stages - 1, cut.rare - own};
  }
  return stages;
}

DevicePlan PlacementSearch::fastest() {
  fill();
  DevicePlan best;
  for (std::size_t rest = 0; rest + 1 < _sets.size(); ++rest) tryFirst(rest, best);
  if (best.feasible) best.stages = stages();
  return best;
}

} // namespace partita::detail
