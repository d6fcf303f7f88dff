#include "partita/plan/placement/placement_search.hpp"

#include "partita/config/user_error.hpp"

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace partita::detail {

namespace {

constexpr double unreachable = std::numeric_limits<double>::infinity();
constexpr std::size_t most_sets = 40000, most_entries = std::size_t{1} << 26,
                      most_kept = std::size_t{1} << 20;

[[noreturn]] void refuse(const LayerGraph& graph, const std::string& what) {
  throw UserError("nodes/" + std::to_string(graph.tensor_degree) + ": " + what);
}

} // namespace

std::vector<BitSet> successorClosedSets(const StageCosts& costs) {
  const std::size_t count = costs.order().size();
  std::vector<BitSet> sets{BitSet(count)};
  std::unordered_set<BitSet, BitSet::Hash> known;
  for (std::size_t next = 0; next < sets.size(); ++next) {
    const BitSet set = sets[next];
    for (std::size_t layer = 0; layer < count; ++layer) {
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

namespace {

/// The limits of a single replica that may use all devices.
LayoutLimits widestLimits(const PlacementTask& task, const LayerGraph& graph) {
  const std::int64_t stages = std::min(static_cast<std::int64_t>(graph.layers.size()), task.devices);
  const std::int64_t each = (graph.tensor_degree + task.node_devices - 1) / task.node_devices;
  return {stages, std::min(task.devices / task.node_devices, stages * each), task.node_devices};
}

bool entriesFit(std::size_t sets, const LayoutLimits& limits, double cells) {
  const double entries = static_cast<double>(sets) * static_cast<double>(limits.stages + 1) * cells;
  return entries <= static_cast<double>(most_entries);
}

void requireTable(const LayerGraph& graph, bool fits) {
  if (!fits)
    refuse(graph, "the table of all cuts would need more than 512 MiB; merge layers of parallel branches, or "
                  "let nodes have fewer devices");
}

} // namespace

bool tableFits(const PlacementTask& task, const LayerGraph& graph, std::size_t sets) {
  const LayoutLimits limits = widestLimits(task, graph);
  const double cells = task.node_devices > 1 ? static_cast<double>(limits.nodes + 1) *
                                                   static_cast<double>(task.node_devices + 1)
                                             : 1.0;
  return entriesFit(sets, limits, cells);
}

namespace {

/// `widestLimits`. Throws UserError if the table for `sets` sets of layers would need too much memory; even
/// the layout of the devices of a node alone might.
LayoutLimits boundedLimits(const PlacementTask& task, const LayerGraph& graph, std::size_t sets) {
  requireTable(graph, tableFits(task, graph, sets));
  return widestLimits(task, graph);
}

std::vector<BitSet> setsOf(const std::vector<std::vector<int>>& stages, std::size_t layers) {
  std::vector<BitSet> sets{BitSet(layers)};
  for (std::size_t i = stages.size(); i-- > 0;) {
    BitSet larger = sets.back();
    for (const int layer : stages[i]) larger.add(layer);
    sets.push_back(std::move(larger));
  }
  return sets;
}

} // namespace

PlacementSearch::PlacementSearch(const PlacementTask& task, std::size_t graph)
    : _task(task), _graph(graph), _costs(task, task.graphs[graph]), _sets(successorClosedSets(_costs)),
      _chain(_costs.isChain()), _limits(boundedLimits(task, _costs.graph(), _sets.size())),
      _layout(task, _costs.graph(), _limits) {
  requireTable(_costs.graph(), entriesFit(_sets.size(), _limits, static_cast<double>(_layout.cells())));
}

PlacementSearch::PlacementSearch(const PlacementTask& task, std::size_t graph,
                                 const std::vector<std::vector<int>>& stages, std::int64_t replicas)
    : _task(task), _graph(graph), _costs(task, task.graphs[graph]),
      _sets(setsOf(stages, task.graphs[graph].layers.size())), _consecutive(true), _replicas(replicas),
      _limits(boundedLimits(task, _costs.graph(), _sets.size())), _layout(task, _costs.graph(), _limits) {}

template <class Visit>
void PlacementSearch::forEachStage(std::size_t set, Visit visit) {
  if (!_kept.empty()) {
    for (const Stage& stage : _kept[set]) visit(stage);
    return;
  }
  if (_chain) {
    if (_chain_costs.size() > set) _chain_costs.clear();
    while (_chain_costs.size() < set) _costs.addFirst(_chain_costs);
    for (std::size_t rest = 0; rest < set; ++rest) visit(Stage{set, rest, _chain_costs[rest]});
    return;
  }
  for (std::size_t rest = _consecutive ? set - 1 : 0; rest < set; ++rest) {
    if (!_sets[set].holds(_sets[rest])) continue;
    BitSet layers(_costs.order().size());
    for (const int layer : _costs.order())
      if (_sets[set].has(layer) && !_sets[rest].has(layer)) layers.add(layer);
    visit(Stage{set, rest, _costs.of(layers)});
  }
}

/// Keeps the costs of all stages if the table is computed more than once.
void PlacementSearch::keepStages() {
  if (!_costs.dependsOnReplicas() || _sets.size() * _sets.size() / 2 > most_kept) return;
  std::vector<std::vector<Stage>> all(_sets.size());
  for (std::size_t set = 1; set < _sets.size(); ++set)
    forEachStage(set, [&](const Stage& stage) { all[set].push_back(stage); });
  _kept = std::move(all);
}

void PlacementSearch::extend(const Stage& stage, const Copies& copies) {
  StageLoads loads(_costs, stage.cost, copies);
  std::int64_t most = _limits.stages - 1; // at least one stage precedes
  if (_chain) most = std::min(most, static_cast<std::int64_t>(stage.rest) + 1);
  for (std::int64_t number = 1, last = 0; number <= most; number = last + 1) {
    if (!loads.moveTo(number)) return; // an earlier stage needs more memory
    last = std::min(loads.validTo(), most);
    extend(stage, loads, number, last);
  }
}

/// The same for the numbers `first` to `last`, for which the stage has the same loads.
void PlacementSearch::extend(const Stage& stage, const StageLoads& loads, std::int64_t first,
                             std::int64_t last) {
  const std::vector<DeviceLayout::Step>& steps = _layout.steps(stage.cost.tensor_parallel);
  const double* later = &_slowest[place(stage.rest, first - 1, 0)];
  double* own = &_slowest[place(stage.set, first, 0)];
  const auto count = static_cast<std::size_t>(last - first + 1);
  if (_layout.cells() == 1 && steps.size() == 1) { // a simple loop, which compilers vectorise
    const double load = loads.at(false, false);
    for (std::size_t i = 0; i < count; ++i) own[i] = std::min(own[i], std::max(later[i], load));
    return;
  }
  for (std::size_t i = 0; i < count; ++i, later += _layout.cells(), own += _layout.cells()) {
    for (const DeviceLayout::Step& step : steps) {
      const StagePosition position = positionOf(stage, first, step);
      own[step.after] = std::min(
          own[step.after], std::max(later[step.before], loads.at(position.near_before, position.near_after)));
    }
  }
}

void PlacementSearch::fill(const Copies& copies) {
  _slowest.assign(place(_sets.size(), 0, 0), unreachable);
  _slowest[place(0, 0, 0)] = 0.0;
  for (std::size_t set = 1; set + 1 < _sets.size(); ++set)
    forEachStage(set, [&](const Stage& stage) { extend(stage, copies); });
}

void PlacementSearch::consider(const Start& start, double slowest) {
  const double time = _costs.batchTime(slowest, start.stages, start.copies, start.stage.cost.parameter_bytes);
  if (_best.feasible && time >= _best.time) return;
  _best = {true, _graph, {}, start.copies.replicas, time, {}};
  _start = start;
  _improved = true;
}

/// The first stage of the whole network determines the all-reduce over replicas.
void PlacementSearch::tryFirst(const Stage& stage, const std::optional<Copies>& copies) {
  const std::vector<DeviceLayout::Step>& steps = _layout.steps(stage.cost.tensor_parallel);
  for (std::int64_t number = 1; number <= _limits.stages; ++number) {
    for (const DeviceLayout::Step& step : steps) {
      const double later = _slowest[place(stage.rest, number - 1, step.before)];
      if (later == unreachable) continue;
      const double load =
          _costs.best(stage.cost, positionOf(stage, number, step), copies.value_or(Copies{})).load;
      if (load == unreachable) continue;
      const Copies room = _layout.room(number, step.after);
      const double slowest = std::max(later, load);
      if (copies) {
        if (room.replicas >= copies->replicas) consider({stage, number, step, *copies}, slowest);
        continue;
      }
      const auto priced = [&](std::int64_t replicas) {
        consider({stage, number, step, {replicas, std::min(replicas, room.per_node)}}, slowest);
      };
      const std::int64_t most = std::min(_task.most_replicas, room.replicas);
      if (_replicas == 0)
        forEachReplicas(_task.microbatches, most, priced);
      else if (_replicas <= std::min(_task.microbatches, most))
        priced(_replicas);
    }
  }
}

PlacedStage PlacementSearch::placedStage(const Stage& stage, const StageOptions& options) const {
  PlacedStage placed;
  for (const int layer : _costs.order())
    if (_sets[stage.set].has(layer) && !_sets[stage.rest].has(layer)) placed.layers.push_back(layer);
  placed.devices = _costs.devicesOf(stage.cost);
  placed.options = options;
  return placed;
}

/// Finds the stages that are as fast as the table says, beginning with the first. In a chain, visiting the
/// smaller set of each computes its costs anew: at most as much work as filling the table.
std::vector<PlacedStage> PlacementSearch::stages() {
  const Copies& copies = _start.copies;
  std::vector<PlacedStage> placed;
  Start at = _start;
  for (;;) {
    placed.push_back(placedStage(
        at.stage, _costs.best(at.stage.cost, positionOf(at.stage, at.stages, at.step), copies).options));
    placed.back().opens_node = placed.size() == 1 || !at.step.near_before;
    if (at.stages == 1) return placed;
    const std::size_t cell = at.step.before;
    const std::int64_t number = at.stages - 1;
    const double slowest = _slowest[place(at.stage.rest, number, cell)];
    bool found = false;
    forEachStage(at.stage.rest, [&](const Stage& stage) {
      for (const DeviceLayout::Step& step : _layout.steps(stage.cost.tensor_parallel)) {
        if (found || step.after != cell) continue;
        const double later = _slowest[place(stage.rest, number - 1, step.before)];
        if (std::max(later, _costs.best(stage.cost, positionOf(stage, number, step), copies).load) != slowest)
          continue;
        found = true;
        at = {stage, number, step, copies};
      }
    });
  }
}

/// Computes the table: for `copies`, or for all numbers of replicas if stages do not depend on them.
void PlacementSearch::run(const LayoutLimits& limits, const std::optional<Copies>& copies) {
  _limits = limits;
  _layout = DeviceLayout(_task, _costs.graph(), limits);
  _improved = false;
  fill(copies.value_or(Copies{}));
  forEachStage(_sets.size() - 1, [&](const Stage& stage) { tryFirst(stage, copies); });
  if (_improved) _best.stages = stages();
}

/// The numbers of replicas that may be best.
std::vector<std::int64_t> PlacementSearch::replicaCounts() const {
  std::vector<std::int64_t> counts;
  constexpr std::int64_t most_tried = 1 << 20; // a table for each takes a few seconds in all
  const std::int64_t most = std::min({_task.microbatches, _task.most_replicas, _task.devices});
  if (_replicas > 0) {
    if (_replicas <= most) counts.push_back(_replicas);
  } else if (_costs.options().back().shard) { // more replicas leave more memory
    if (most > most_tried)
      refuse(_costs.graph(),
             "a sharded optimiser state makes the search try each number of replicas; at most " +
                 std::to_string(most_tried) + " are possible");
    for (std::int64_t replicas = 1; replicas <= most; ++replicas) counts.push_back(replicas);
  } else {
    forEachReplicas(_task.microbatches, most, [&](std::int64_t replicas) { counts.push_back(replicas); });
  }
  return counts;
}

DevicePlan PlacementSearch::fastest() {
  keepStages();
  const LayoutLimits widest = widestLimits(_task, _costs.graph());
  if (!_costs.dependsOnReplicas()) {
    run(widest, {});
    return _best;
  }
  const std::vector<std::int64_t> counts = replicaCounts();
  findLeastLoads();
  // With many replicas, each has few stages, so tables are small. Their results exclude part of the larger
  // ones.
  std::for_each(counts.rbegin(), counts.rend(), [&](std::int64_t replicas) { runFor(replicas, widest); });
  return _best;
}

/// No stage is faster than its slowest layer, and no pipeline than its longest path.
void PlacementSearch::findLeastLoads() {
  std::vector<double> ends(_costs.order().size(), 0.0);
  for (const int layer : _costs.order()) {
    const PlacedLayer& own = _costs.graph().layers[layer];
    double before = 0.0;
    for (const LayerEdge& edge : _costs.into(layer)) before = std::max(before, ends[edge.from]);
    ends[layer] = before + own.forward + own.backward;
    _slowest_layer = std::max(_slowest_layer, own.forward + own.backward);
    _longest_path = std::max(_longest_path, ends[layer]);
  }
}

/// Can this many replicas of at most this many stages be faster than the best plan?
bool PlacementSearch::promises(std::int64_t replicas, std::int64_t most_stages) const {
  constexpr double rounding = 1.0 - 1e-9;
  for (std::int64_t stages = 1; stages <= most_stages && _best.feasible; ++stages) {
    const double slowest = std::max(_slowest_layer, _longest_path / static_cast<double>(stages));
    if (rounding * _costs.batchTime(slowest, stages, {replicas, 1}, 0.0) < _best.time) return true;
  }
  return !_best.feasible;
}

/// Runs once for each number of replicas that a node may have. Of several numbers that leave a replica the
/// same devices, only the largest is tried.
void PlacementSearch::runFor(std::int64_t replicas, const LayoutLimits& widest) {
  const std::int64_t node = _task.node_devices, nodes = _task.devices / node;
  std::int64_t slots = 0;
  for (std::int64_t each = std::min(replicas, node); each > 1; --each) {
    if (node / each == slots) continue;
    slots = node / each;
    if (nodes * (node / slots) >= replicas)
      run({std::min(widest.stages, slots), 1, slots}, Copies{replicas, each});
  }
  if (nodes >= replicas && promises(replicas, std::min(widest.stages, _task.devices / replicas)))
    run({std::min(widest.stages, _task.devices / replicas), std::min(widest.nodes, nodes / replicas), node},
        Copies{replicas, 1});
}

} // namespace partita::detail
