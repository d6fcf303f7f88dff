#include "partita/plan/placement/stage_cost.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace partita::detail {

std::int64_t parallelLayers(const LayerGraph& graph) {
  return std::count_if(graph.layers.begin(), graph.layers.end(),
                       [](const PlacedLayer& layer) { return layer.tensor_parallel; });
}

StageCosts::StageCosts(const PlacementTask& task, const LayerGraph& graph)
    : _task(task), _graph(graph), _into(graph.layers.size()), _out_of(graph.layers.size()) {
  std::vector<int> missing(graph.layers.size(), 0);
  for (const LayerEdge& edge : graph.edges) {
    _into[edge.to].push_back(edge);
    _out_of[edge.from].push_back(edge);
    ++missing[edge.to];
  }
  for (std::size_t i = 0; i < missing.size(); ++i)
    if (missing[i] == 0) _order.push_back(static_cast<int>(i));
  for (std::size_t next = 0; next < _order.size(); ++next)
    for (const LayerEdge& edge : _out_of[_order[next]])
      if (--missing[edge.to] == 0) _order.push_back(edge.to);
  const StageOptions& choose = task.choose;
  for (const bool offload : {false, true})
    for (const bool shard : {false, true})
      for (const bool recompute : {false, true})
        if ((recompute == task.recompute || (choose.recompute && recompute)) && (!shard || choose.shard) &&
            (!offload || choose.offload) && (task.adam || !(shard || offload)))
          _options.push_back({recompute, shard, offload});
  constexpr double immediately = std::numeric_limits<double>::infinity();
  _bandwidths = {task.bandwidth, hasNodes() ? task.node_bandwidth : 0.0,
                 task.recompute || choose.recompute ? immediately : 0.0};
}

bool StageCosts::isChain() const {
  for (std::size_t i = 0; i < _order.size(); ++i) {
    const std::vector<LayerEdge>& edges = _into[_order[i]];
    if (edges.empty() != (i == 0)) return false;
    for (const LayerEdge& edge : edges)
      if (edge.from != _order[i - 1]) return false;
  }
  return true;
}

std::vector<int> StageCosts::membersOf(const BitSet& layers) const {
  std::vector<int> members;
  for (const int layer : _order)
    if (layers.has(layer)) members.push_back(layer);
  return members;
}

/// The end of the last layer if each starts as soon as its inputs have arrived. Inputs from other stages are
/// sent at 0.
double StageCosts::forwardTime(const std::vector<int>& members, const BitSet& inside,
                               double bandwidth) const {
  std::vector<double> ends(_graph.layers.size(), 0.0);
  double last = 0.0;
  for (const int layer : members) {
    double start = 0.0;
    for (const LayerEdge& edge : _into[layer])
      start = std::max(start, inside.has(edge.from) ? ends[edge.from] : edge.bytes / bandwidth);
    ends[layer] = start + _graph.layers[layer].forward;
    last = std::max(last, ends[layer]);
  }
  return last;
}

/// The same for the backward pass.
double StageCosts::backwardTime(const std::vector<int>& members, const BitSet& inside,
                                double bandwidth) const {
  std::vector<double> ends(_graph.layers.size(), 0.0);
  double last = 0.0;
  for (std::size_t i = members.size(); i-- > 0;) {
    const int layer = members[i];
    double start = 0.0;
    for (const LayerEdge& edge : _out_of[layer])
      start = std::max(start, inside.has(edge.to) ? ends[edge.to] : edge.bytes / bandwidth);
    ends[layer] = start + _graph.layers[layer].backward;
    last = std::max(last, ends[layer]);
  }
  return last;
}

StageCost StageCosts::of(const BitSet& layers) const {
  const std::vector<int> members = membersOf(layers);
  StageCost cost;
  if (members.empty())
    cost.tensor_parallel = 2 * parallelLayers(_graph) >= static_cast<std::int64_t>(_graph.layers.size());
  for (const int layer : members) {
    const PlacedLayer& own = _graph.layers[layer];
    cost.parameter_bytes += own.parameter_bytes;
    cost.activation_bytes += own.activation_bytes;
    cost.tensor_parallel = cost.tensor_parallel || own.tensor_parallel;
    for (const LayerEdge& edge : _into[layer])
      cost.entering_bytes += layers.has(edge.from) ? 0.0 : edge.bytes;
  }
  for (std::size_t i = 0; i < _bandwidths.size(); ++i) {
    if (_bandwidths[i] == 0.0) continue;
    cost.forward[i] = forwardTime(members, layers, _bandwidths[i]);
    cost.backward[i] = backwardTime(members, layers, _bandwidths[i]);
  }
  return cost;
}

/// Forward times and bytes grow from the first layer to the last, and backward times from the last to the
/// first: both as in of(), to the last bit.
void StageCosts::addFirst(std::vector<StageCost>& stages) const {
  const std::size_t count = _order.size(), first = count - stages.size() - 1;
  const PlacedLayer& added = _graph.layers[_order[first]];
  const auto messages = [&](const std::vector<LayerEdge>& edges, std::size_t kind) {
    double longest = 0.0;
    for (const LayerEdge& edge : edges) longest = std::max(longest, edge.bytes / _bandwidths[kind]);
    return longest;
  };
  StageCost grown; // of the layers so far, from the first one
  stages.emplace_back();
  for (const LayerEdge& edge : _into[_order[first]]) grown.entering_bytes += edge.bytes;
  for (std::size_t kind = 0; kind < _bandwidths.size(); ++kind) {
    if (_bandwidths[kind] == 0.0) continue;
    grown.forward[kind] = messages(_into[_order[first]], kind);
    stages.back().backward[kind] = messages(_out_of[_order[first]], kind);
  }
  for (std::size_t rest = stages.size(); rest-- > 0;) {
    const PlacedLayer& last = _graph.layers[_order[count - 1 - rest]];
    grown.parameter_bytes += last.parameter_bytes;
    grown.activation_bytes += last.activation_bytes;
    grown.tensor_parallel = grown.tensor_parallel || last.tensor_parallel;
    grown.backward = stages[rest].backward;
    for (std::size_t kind = 0; kind < _bandwidths.size(); ++kind) {
      if (_bandwidths[kind] == 0.0) continue;
      grown.forward[kind] += last.forward;
      grown.backward[kind] += added.backward;
    }
    stages[rest] = grown;
  }
}

double StageCosts::memory(const StageCost& cost, const StageOptions& options, std::int64_t replicas) const {
  const bool all_of_state = _task.adam && !options.shard && !options.offload;
  const double part = _task.adam && options.shard && !options.offload
                          ? cost.parameter_bytes / static_cast<double>(replicas)
                          : 0.0;
  return (all_of_state ? 3.0 : 2.0) * cost.parameter_bytes + part + cost.activation_bytes;
}

std::int64_t StageCosts::lastFit(const StageCost& cost, const StageOptions& options,
                                 std::int64_t replicas) const {
  constexpr auto any = std::numeric_limits<std::int64_t>::max();
  const double last = memory(cost, options, replicas);
  if (last > _task.memory) return 0;
  const double stash = options.recompute ? cost.entering_bytes : cost.activation_bytes;
  const double more = stash > 0.0 ? std::floor((_task.memory - last) / stash) : 1e18;
  return more < 1e18 ? 1 + static_cast<std::int64_t>(more) : any;
}

double StageCosts::load(const StageCost& cost, const StageOptions& options, const StagePosition& position,
                        const Copies& copies) const {
  const std::size_t before = position.near_before ? 1 : 0, after = position.near_after ? 1 : 0;
  double backward = cost.backward[after];
  if (options.recompute && position.number > 1) // gradients may arrive while the forward pass is repeated
    backward = std::max(backward, cost.forward[2] + cost.backward[2]);
  double seconds = cost.forward[before] + backward;
  if (!options.shard && !options.offload) return seconds;
  const auto microbatches = static_cast<double>(microbatchesPer(copies.replicas));
  if (options.shard) seconds += 0.5 * sumSeconds(cost.parameter_bytes, copies) / microbatches;
  if (options.offload) {
    const double state = cost.parameter_bytes / (options.shard ? static_cast<double>(copies.replicas) : 1.0);
    seconds += 2.0 * state / _task.host_bandwidth / microbatches;
  }
  return seconds;
}

StageChoice StageCosts::best(const StageCost& cost, const StagePosition& position,
                             const Copies& copies) const {
  StageChoice best;
  for (const StageOptions& options : _options) {
    if (position.number > lastFit(cost, options, copies.replicas)) continue;
    const double seconds = load(cost, options, position, copies);
    if (seconds < best.load) best = {seconds, options};
  }
  return best;
}

bool StageLoads::moveTo(std::int64_t number) {
  constexpr double none = std::numeric_limits<double>::infinity();
  if (number > 1 && number <= _valid_to) return _loads[0][0] < none;
  _loads[0][0] = none;
  _valid_to = std::numeric_limits<std::int64_t>::max();
  for (const StageOptions& options : _costs.options())
    if (const std::int64_t last = _costs.lastFit(_cost, options, _copies.replicas); last >= number)
      _valid_to = std::min(_valid_to, last);
  for (const bool before : {false, true})
    for (const bool after : {false, true})
      if (!(before || after) || _costs.hasNodes())
        _loads[before ? 1 : 0][after ? 1 : 0] = _costs.best(_cost, {number, before, after}, _copies).load;
  if (number == 1) _valid_to = 1; // the last stage repeats nothing
  return _loads[0][0] < none;
}

double StageCosts::sumSeconds(double bytes, const Copies& copies) const {
  const auto replicas = static_cast<double>(copies.replicas), node = static_cast<double>(copies.per_node);
  const double between = 4.0 * (replicas - node) / replicas / node * bytes / _task.bandwidth;
  return copies.per_node == 1 ? between : between + 4.0 * (node - 1.0) / node * bytes / _task.node_bandwidth;
}

double StageCosts::batchTime(double slowest, std::int64_t stages, const Copies& copies,
                             double first_bytes) const {
  const std::int64_t rounds = microbatchesPer(copies.replicas) + stages - 1;
  return slowest * static_cast<double>(rounds) + sumSeconds(first_bytes, copies);
}

} // namespace partita::detail
