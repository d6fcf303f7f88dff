#pragma once

#include "partita/plan/partition.hpp"
#include "partita/plan/stage_memory.hpp"

namespace partita {

/// The grid of a run: stage groups x replicas, group index fastest, so that neighbouring stages are
/// neighbouring ranks.
struct GridPlan {
  int ranks = 1, stages = 1, replicas = 1, groups = 1;
  std::vector<int> first_stage; ///< of each group, and the number of stages at the end: groups + 1 values

  int group(int rank) const { return rank % groups; }
  int replica(int rank) const { return rank / groups; }
  int groupOf(int stage) const;
};

/// ranks = stages x replicas, or fewer: consecutive stages are then dealt to the ranks, balanced by FLOPs.
/// Throws UserError where the number of ranks does not fit.
GridPlan planGrid(const StrategySection& strategy, const Partition& partition, int ranks);

/// Memory of stage `stage` on its rank of the grid.
StageMemory stageMemory(const RunConfig& config, const Partition& partition, const GridPlan& grid, int stage,
                        const DeviceKind& device = {});

} // namespace partita
