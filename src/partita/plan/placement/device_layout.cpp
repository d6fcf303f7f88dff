#include "partita/plan/placement/device_layout.hpp"

#include <algorithm>

namespace partita::detail {

Copies roomFor(std::int64_t devices, std::int64_t node_devices, std::int64_t nodes, std::int64_t slots) {
  const std::int64_t all = devices / node_devices;
  if (nodes > 1) return {all / nodes, 1};
  const std::int64_t each = node_devices / slots;
  return {all * each, each};
}

DeviceLayout::DeviceLayout(const PlacementTask& task, const LayerGraph& graph, const LayoutLimits& limits)
    : _devices(task.devices), _node(task.node_devices), _degree(graph.tensor_degree) {
  if (_node == 1) {
    countRare(graph, limits);
    return;
  }
  _cells = cellOf(limits.nodes + 1, 0);
  for (const bool tensor_parallel : {false, true}) fillNodes(limits, tensor_parallel);
}

void DeviceLayout::countRare(const LayerGraph& graph, const LayoutLimits& limits) {
  const auto count = static_cast<std::int64_t>(graph.layers.size());
  const std::int64_t parallel = parallelLayers(graph);
  _tensor_is_rare = parallel < count - parallel;
  const auto most = static_cast<std::uint32_t>(std::min({parallel, count - parallel, limits.stages}));
  _cells = most + 1;
  for (const bool tensor_parallel : {false, true}) {
    const std::uint32_t own = tensor_parallel == _tensor_is_rare ? 1 : 0;
    for (std::uint32_t rare = own; rare <= most; ++rare)
      _steps[tensor_parallel ? 1 : 0].push_back({rare - own, rare, false, false});
  }
}

void DeviceLayout::fillNodes(const LayoutLimits& limits, bool tensor_parallel) {
  std::vector<Step>& steps = _steps[tensor_parallel ? 1 : 0];
  const std::int64_t own = tensor_parallel ? _degree : 1;
  if (own > _node) {
    const std::int64_t whole = (own + _node - 1) / _node;
    for (std::int64_t nodes = whole; nodes <= limits.nodes; ++nodes)
      steps.push_back({cellOf(nodes - whole, 0), cellOf(nodes, 0), false, false});
    return;
  }
  for (std::int64_t nodes = 1; nodes <= limits.nodes; ++nodes) {
    for (std::int64_t slots = own; slots <= limits.slots; ++slots) {
      const bool shares = slots > own; // the node, with the stage after it
      const std::uint32_t before = shares ? cellOf(nodes, slots - own) : cellOf(nodes - 1, 0);
      steps.push_back({before, cellOf(nodes, slots), true, shares});
      steps.push_back({before, cellOf(nodes, 0), false, shares});
    }
  }
}

Copies DeviceLayout::room(std::int64_t stages, std::size_t cell) const {
  if (_node == 1) {
    const auto rare = static_cast<std::int64_t>(cell);
    const std::int64_t parallel = _tensor_is_rare ? rare : stages - rare;
    return roomFor(_devices, 1, parallel * _degree + stages - parallel, 1);
  }
  const std::int64_t nodes = static_cast<std::int64_t>(cell) / (_node + 1),
                     slots = static_cast<std::int64_t>(cell) % (_node + 1);
  // For a closed node only the cell of the open node says how many devices are in use.
  return slots > 0 || nodes > 1 ? roomFor(_devices, _node, nodes, std::max<std::int64_t>(slots, 1))
                                : Copies{0, 1};
}

} // namespace partita::detail
