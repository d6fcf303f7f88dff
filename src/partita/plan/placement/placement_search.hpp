#pragma once

#include "partita/plan/placement/stage_cost.hpp"

#include <functional>
#include <vector>

namespace partita::detail {

/// Sets of layers that include all successors of their members, each after its subsets; the first is empty
/// and the last has all layers. Throws UserError if there are more than 40,000.
std::vector<BitSet> successorClosedSets(const StageCosts& costs);

/// Calls `visit` for each number of replicas up to `most` that may be the best: larger ones with the same
/// number of micro-batches per replica only add to the all-reduce.
void forEachReplicas(std::int64_t microbatches, std::int64_t most,
                     const std::function<void(std::int64_t)>& visit);

/// The dynamic program for one graph. Its table has, for each successor-closed set, each number of stages and
/// each number of stages of the rarer kind (with or without tensor parallelism), the load of the slowest
/// stage. The two numbers give the devices, so that the cost does not depend on how many devices there are.
class PlacementSearch {
 public:
  PlacementSearch(const PlacementTask& task, std::size_t graph);

  DevicePlan fastest();

 private:
  /// What remains after the first stage: a set of layers, and its stages.
  struct Cut {
    std::size_t rest = 0;
    std::int64_t stages = 0, rare = 0;
  };

  /// Position in the table of the stages of a set; `rare` counts stages of the rarer kind.
  std::size_t place(std::size_t set, std::int64_t stages, std::int64_t rare) const {
    return (set * (_most_stages + 1) + stages) * (_most_rare + 1) + rare;
  }
  bool isRare(const StageCost& cost) const { return cost.tensor_parallel == _tensor_is_rare; }
  std::int64_t devices(std::int64_t stages, std::int64_t rare) const;
  void fill();
  void extend(std::size_t set, std::size_t rest);
  void tryFirst(std::size_t rest, DevicePlan& best);
  std::vector<PlacedStage> stages() const;
  std::size_t nextCut(std::size_t set, std::int64_t stages, std::int64_t rare) const;
  PlacedStage stageOf(std::size_t set, std::size_t rest) const;
  BitSet difference(std::size_t set, std::size_t rest) const;

  const PlacementTask& _task;
  std::size_t _graph;
  StageCosts _costs;
  std::vector<BitSet> _sets;
  bool _tensor_is_rare = false;
  std::int64_t _most_stages = 0, _most_rare = 0;
  std::vector<double> _slowest;
  Cut _first;
};

} // namespace partita::detail
