#pragma once

#include "partita/plan/placement/device_placement.hpp"
#include "partita/plan/schedule/bit_set.hpp"

#include <array>
#include <limits>
#include <vector>

namespace partita::detail {

/// The cost of a set of layers as a stage. Times are for a neighbour on another node, for one on the same
/// node, and without messages; those that the task does not need are 0.
struct StageCost {
  std::array<double, 3> forward{};  ///< seconds per microbatch, by the location of the stage before
  std::array<double, 3> backward{}; ///< by the location of the stage after
  double parameter_bytes = 0.0, activation_bytes = 0.0;
  double entering_bytes = 0.0;  ///< from other stages
  bool tensor_parallel = false; ///< does it need the graph's degree of devices, not one?
};

/// The number of replicas, and how many of them share a node.
struct Copies {
  std::int64_t replicas = 1, per_node = 1;
};

/// The location of a stage: its number from the end of the pipeline (the last stage is 1), and whether its
/// neighbours are on its node.
struct StagePosition {
  std::int64_t number = 1;
  bool near_before = false, near_after = false;
};

/// The best options of a stage. If none fit, the load is infinite.
struct StageChoice {
  double load = std::numeric_limits<double>::infinity(); ///< seconds per microbatch
  StageOptions options;
};

/// How many layers are divided over the devices of their stage.
std::int64_t parallelLayers(const LayerGraph& graph);

/// A graph with its layers in an order that respects the edges.
class StageCosts {
 public:
  StageCosts(const PlacementTask& task, const LayerGraph& graph);

  const LayerGraph& graph() const { return _graph; }
  const std::vector<int>& order() const { return _order; }
  /// Edges by their ends.
  const std::vector<LayerEdge>& into(std::size_t layer) const { return _into[layer]; }
  const std::vector<LayerEdge>& outOf(std::size_t layer) const { return _out_of[layer]; }
  /// Does each layer except the first have edges, all from the layer before it?
  bool isChain() const;

  /// An empty stage, which only fixed plans have, takes the devices that most layers need.
  StageCost of(const BitSet& layers) const;
  /// For chains: `stages[rest]` is the stage that begins with a layer and ends `rest` layers before the last
  /// one. Replaces them by the stages that begin one layer earlier. If `stages` is empty, it gets the stage
  /// of the last layer alone.
  void addFirst(std::vector<StageCost>& stages) const;
  std::int64_t devicesOf(const StageCost& cost) const {
    return cost.tensor_parallel ? _graph.tensor_degree : 1;
  }
  /// The options that stages have; of equally good ones the first is chosen.
  const std::vector<StageOptions>& options() const { return _options; }
  bool hasNodes() const { return _task.node_devices > 1; }
  /// Do loads or memory depend on the number of replicas?
  bool dependsOnReplicas() const { return _options.back().shard || _options.back().offload; }

  /// Bytes of the stage as the last one.
  double memory(const StageCost& cost, const StageOptions& options, std::int64_t replicas) const;
  /// The largest number from the end at which the stage fits into memory; 0: none. A stage keeps the values
  /// of as many microbatches as its number.
  std::int64_t lastFit(const StageCost& cost, const StageOptions& options, std::int64_t replicas) const;
  /// Seconds per microbatch.
  double load(const StageCost& cost, const StageOptions& options, const StagePosition& position,
              const Copies& copies) const;
  StageChoice best(const StageCost& cost, const StagePosition& position, const Copies& copies) const;

  /// Seconds of a sum of this many bytes over all replicas.
  double sumSeconds(double bytes, const Copies& copies) const;
  /// Seconds per batch with this many stages; `slowest` is the load of the slowest stage.
  double batchTime(double slowest, std::int64_t stages, const Copies& copies, double first_bytes) const;

 private:
  std::vector<int> membersOf(const BitSet& layers) const;
  double forwardTime(const std::vector<int>& members, const BitSet& inside, double bandwidth) const;
  double backwardTime(const std::vector<int>& members, const BitSet& inside, double bandwidth) const;
  std::int64_t microbatchesPer(std::int64_t replicas) const {
    return (_task.microbatches + replicas - 1) / replicas;
  }

  const PlacementTask& _task;
  const LayerGraph& _graph;
  std::vector<int> _order;
  std::vector<std::vector<LayerEdge>> _into, _out_of;
  std::vector<StageOptions> _options;
  std::array<double, 3> _bandwidths; ///< bytes/s for the times of StageCost; 0: not needed
};

/// The loads of a stage with the best options that fit, for increasing numbers from the end.
class StageLoads {
 public:
  StageLoads(const StageCosts& costs, const StageCost& cost, const Copies& copies)
      : _costs(costs), _cost(cost), _copies(copies) {}

  /// Returns whether the stage fits there.
  bool moveTo(std::int64_t number);
  /// The last number for which the loads, and whether the stage fits, are the same.
  std::int64_t validTo() const { return _valid_to; }
  double at(bool near_before, bool near_after) const {
    return _loads[near_before ? 1 : 0][near_after ? 1 : 0];
  }

 private:
  const StageCosts& _costs;
  const StageCost& _cost;
  const Copies& _copies;
  std::int64_t _valid_to = 0; ///< the last number that these loads hold for
  std::array<std::array<double, 2>, 2> _loads{};
};

} // namespace partita::detail
