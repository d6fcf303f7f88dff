#pragma once

#include "partita/plan/placement/bit_set.hpp"
#include "partita/plan/placement/device_placement.hpp"

#include <vector>

namespace partita::detail {

/// What a set of layers costs as a stage. Stages are counted from the end of the pipeline: the last is 1, and
/// a stage keeps the values of as many micro-batches as its number.
struct StageCost {
  double last_load = 0.0, load = 0.0; ///< seconds per micro-batch as the last stage and as any other
  double memory = 0.0, stash = 0.0;   ///< bytes of the last stage, and more for each stage after this one
  double parameter_bytes = 0.0;
  bool tensor_parallel = false; ///< does it need the devices of the graph's degree, or one?

  double loadAt(std::int64_t stage) const { return stage > 1 ? load : last_load; }
};

/// A graph with its layers in an order that respects the edges.
class StageCosts {
 public:
  StageCosts(const PlacementTask& task, const LayerGraph& graph);

  const LayerGraph& graph() const { return _graph; }
  const std::vector<int>& order() const { return _order; }
  /// Edges by their ends.
  const std::vector<LayerEdge>& into(std::size_t layer) const { return _into[layer]; }
  const std::vector<LayerEdge>& outOf(std::size_t layer) const { return _out_of[layer]; }

  StageCost of(const BitSet& layers) const;
  std::int64_t devicesOf(const StageCost& cost) const {
    return cost.tensor_parallel ? _graph.tensor_degree : 1;
  }
  /// The largest number from the end at which the stage fits into memory; 0: none.
  std::int64_t lastFit(const StageCost& cost) const;
  /// Seconds per batch of `stages` stages and `replicas` replicas; `slowest` is the load of the slowest
  /// stage.
  double batchTime(double slowest, std::int64_t stages, std::int64_t replicas, double first_bytes) const;

 private:
  std::vector<int> membersOf(const BitSet& layers) const;
  double forwardTime(const std::vector<int>& members, const BitSet& inside, bool receives) const;
  double backwardTime(const std::vector<int>& members, const BitSet& inside, double begin) const;

  const PlacementTask& _task;
  const LayerGraph& _graph;
  std::vector<int> _order;
  std::vector<std::vector<LayerEdge>> _into, _out_of;
};

} // namespace partita::detail
