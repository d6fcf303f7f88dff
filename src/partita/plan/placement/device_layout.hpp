#pragma once

#include "partita/plan/placement/stage_cost.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace partita::detail {

/// Limits of one replica.
struct LayoutLimits {
  std::int64_t stages = 1, nodes = 1;
  std::int64_t slots = 1; ///< of a node
};

/// How the stages of a replica fill devices, from the last stage to the first. A cell is all that later steps
/// need to know about this.
///
/// If nodes have one device, it is the number of stages of the rarer kind, with or without tensor
/// parallelism. With the number of stages it determines the devices, so there is no cell per device.
/// Otherwise it is the number of nodes, and the devices in use on the newest one if the next stage goes there
/// too, or 0 if it opens another one. A stage never spans two nodes, unless it needs several whole nodes.
class DeviceLayout {
 public:
  DeviceLayout(const PlacementTask& task, const LayerGraph& graph, const LayoutLimits& limits);

  /// The devices that a stage takes.
  struct Step {
    std::uint32_t before, after;  ///< cells
    bool near_before, near_after; ///< are the stages before and after it on its node?
  };
  const std::vector<Step>& steps(bool tensor_parallel) const { return _steps[tensor_parallel ? 1 : 0]; }
  std::size_t cells() const { return _cells; }

  /// How many replicas fit, in all and per node, if one ends in this cell with this many stages. None if
  /// another cell stands for the same stages on the same devices.
  Copies room(std::int64_t stages, std::size_t cell) const;

 private:
  void countRare(const LayerGraph& graph, const LayoutLimits& limits);
  void fillNodes(const LayoutLimits& limits, bool tensor_parallel);
  std::uint32_t cellOf(std::int64_t nodes, std::int64_t slots) const {
    return static_cast<std::uint32_t>(nodes * (_node + 1) + slots);
  }

  std::int64_t _devices, _node, _degree; ///< in all, of a node, of a tensor parallel stage
  bool _tensor_is_rare = false;
  std::size_t _cells = 1;
  std::array<std::vector<Step>, 2> _steps; ///< of stages without and with tensor parallelism
};

/// How many replicas fit on `devices` if each uses this many nodes, or `slots` devices of a single node.
Copies roomFor(std::int64_t devices, std::int64_t node_devices, std::int64_t nodes, std::int64_t slots);

} // namespace partita::detail
