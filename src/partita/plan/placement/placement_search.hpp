#pragma once

#include "partita/plan/placement/device_layout.hpp"
#include "partita/plan/placement/stage_cost.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace partita::detail {

/// Sets of layers that include all successors of their members, each set after its subsets. The first is
/// empty, and the last has all layers. Throws UserError if there are more than 40,000.
std::vector<BitSet> successorClosedSets(const StageCosts& costs);

/// Calls `visit` for each number of replicas up to `most` that may be the best. Of all numbers with the same
/// microbatches per replica only the smallest is visited, because larger ones only make the all-reduce
/// longer.
void forEachReplicas(std::int64_t microbatches, std::int64_t most,
                     const std::function<void(std::int64_t)>& visit);

/// Does the table for this many successor-closed sets need at most 512 MiB? This does not count the cells of
/// tensor-parallel layers on nodes of one device.
bool tableFits(const PlacementTask& task, const LayerGraph& graph, std::size_t sets);

/// The dynamic program for one graph. For each successor-closed set, number of stages and cell of the layout,
/// its table has the load of the slowest stage. If loads depend on the number of replicas, there is a table
/// for each number.
class PlacementSearch {
 public:
  PlacementSearch(const PlacementTask& task, std::size_t graph);
  /// For the fixed plan: only the given stages, from the first, with this many replicas.
  PlacementSearch(const PlacementTask& task, std::size_t graph, const std::vector<std::vector<int>>& stages,
                  std::int64_t replicas);

  DevicePlan fastest();

 private:
  /// The layers of `set` that are not in `rest`, as the first stage of `set`.
  struct Stage {
    std::size_t set = 0, rest = 0;
    StageCost cost;
  };
  /// The first stage of the best plan, and the way to the others.
  struct Start {
    Stage stage;
    std::int64_t stages = 0;
    DeviceLayout::Step step{};
    Copies copies;
  };

  std::size_t place(std::size_t set, std::int64_t stages, std::size_t cell) const {
    return (set * (_limits.stages + 1) + stages) * _layout.cells() + cell;
  }
  template <class Visit>
  void forEachStage(std::size_t set, Visit visit);
  void keepStages();
  /// Only a fixed plan has stages without layers.
  bool isEmpty(std::size_t set) const {
    return _consecutive && set > 0 && set < _sets.size() && _sets[set] == _sets[set - 1];
  }
  /// An empty stage passes nothing on, so its neighbours exchange values as if they were on different nodes.
  StagePosition positionOf(const Stage& stage, std::int64_t number, const DeviceLayout::Step& step) const {
    return {number, step.near_before && !isEmpty(stage.set + 1), step.near_after && !isEmpty(stage.rest)};
  }

  std::vector<std::int64_t> replicaCounts() const;
  void findLeastLoads();
  bool promises(std::int64_t replicas, std::int64_t most_stages) const;
  void runFor(std::int64_t replicas, const LayoutLimits& widest);
  void run(const LayoutLimits& limits, const std::optional<Copies>& copies);
  void fill(const Copies& copies);
  void extend(const Stage& stage, const Copies& copies);
  void extend(const Stage& stage, const StageLoads& loads, std::int64_t first, std::int64_t last);
  void tryFirst(const Stage& stage, const std::optional<Copies>& copies);
  void consider(const Start& start, double slowest);
  std::vector<PlacedStage> stages();
  PlacedStage placedStage(const Stage& stage, const StageOptions& options) const;

  const PlacementTask& _task;
  std::size_t _graph;
  StageCosts _costs;
  std::vector<BitSet> _sets;
  bool _consecutive = false;             ///< each set is the previous one and one more stage
  std::int64_t _replicas = 0;            ///< the only number; 0: any
  std::vector<std::vector<Stage>> _kept; ///< by set; empty: too many
  bool _chain = false;                   ///< is each set the previous one and the layer before it?
  std::vector<StageCost> _chain_costs;   ///< of the last set that was visited, see StageCosts::addFirst
  LayoutLimits _limits;
  DeviceLayout _layout;
  std::vector<double> _slowest;
  double _slowest_layer = 0.0, _longest_path = 0.0; ///< seconds, forward and backward
  DevicePlan _best;
  Start _start;           ///< of the best plan
  bool _improved = false; ///< is the best plan of the current table?
};

} // namespace partita::detail
