#include "partita/plan/placement/stage_cost.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace partita::detail {

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
}

std::vector<int> StageCosts::membersOf(const BitSet& layers) const {
  std::vector<int> members;
  for (const int layer : _order)
    if (layers.has(layer)) members.push_back(layer);
  return members;
}

/// When the last layer is done, if each starts as soon as its inputs are there. What comes from other stages
/// starts to arrive at 0.
double StageCosts::forwardTime(const std::vector<int>& members, const BitSet& inside, bool receives) const {
  std::vector<double> ends(_graph.layers.size(), 0.0);
  double last = 0.0;
  for (const int layer : members) {
    double start = 0.0;
    for (const LayerEdge& edge : _into[layer]) {
      if (inside.has(edge.from))
        start = std::max(start, ends[edge.from]);
      else if (receives)
        start = std::max(start, edge.bytes / _task.bandwidth);
    }
    ends[layer] = start + _graph.layers[layer].forward;
    last = std::max(last, ends[layer]);
  }
  return last;
}

/// The same for the backward pass, in which no layer starts before `begin`.
double StageCosts::backwardTime(const std::vector<int>& members, const BitSet& inside, double begin) const {
  std::vector<double> ends(_graph.layers.size(), 0.0);
  double last = begin;
  for (std::size_t i = members.size(); i-- > 0;) {
    const int layer = members[i];
    double start = begin;
    for (const LayerEdge& edge : _out_of[layer])
      start = std::max(start, inside.has(edge.to) ? ends[edge.to] : edge.bytes / _task.bandwidth);
    ends[layer] = start + _graph.layers[layer].backward;
    last = std::max(last, ends[layer]);
  }
  return last;
}

StageCost StageCosts::of(const BitSet& layers) const {
  const std::vector<int> members = membersOf(layers);
  StageCost cost;
  double activations = 0.0, entering = 0.0;
  for (const int layer : members) {
    const PlacedLayer& own = _graph.layers[layer];
    cost.parameter_bytes += own.parameter_bytes;
    activations += own.activation_bytes;
    cost.tensor_parallel = cost.tensor_parallel || own.tensor_parallel;
    for (const LayerEdge& edge : _into[layer]) entering += layers.has(edge.from) ? 0.0 : edge.bytes;
  }
  const double forward = forwardTime(members, layers, true);
  cost.last_load = cost.load = forward + backwardTime(members, layers, 0.0);
  if (_task.recompute)
    cost.load = forward + backwardTime(members, layers, forwardTime(members, layers, false));
  cost.memory = (_task.adam ? 3.0 : 2.0) * cost.parameter_bytes + activations;
  cost.stash = _task.recompute ? entering : activations;
  return cost;
}

std::int64_t StageCosts::lastFit(const StageCost& cost) const {
  constexpr auto any = std::numeric_limits<std::int64_t>::max();
  if (cost.memory > _task.memory) return 0;
  const double more = cost.stash > 0.0 ? std::floor((_task.memory - cost.memory) / cost.stash) : 1e18;
  return more < 1e18 ? 1 + static_cast<std::int64_t>(more) : any;
}

double StageCosts::batchTime(double slowest, std::int64_t stages, std::int64_t replicas,
                             double first_bytes) const {
  const std::int64_t rounds = (_task.microbatches + replicas - 1) / replicas + stages - 1;
  const double copies = static_cast<double>(replicas);
  return slowest * static_cast<double>(rounds) +
         4.0 * (copies - 1.0) / copies * first_bytes / _task.bandwidth;
}

} // namespace partita::detail
