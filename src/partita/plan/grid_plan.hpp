#pragma once

#include "partita/plan/partition.hpp"
#include "partita/plan/stage_memory.hpp"

namespace partita {

/// The axes of the grid of ranks: consecutive stages of the network, copies of it, and ranks that share the
/// layers of one stage.
enum class Axis { stage, replica, part };

/// The grid of a run: stage groups x replicas x parts. Ranks that exchange most are neighbours, since a
/// launcher fills nodes with consecutive ranks: the stages of a pipeline follow one another, then come its
/// parts, and the replicas are farthest apart. A group consists of the consecutive stages of one rank. Ranks
/// before and after the grid own no stage; a strategy may use the ranks before it for other purposes.
struct GridPlan {
  int ranks = 1;                           ///< of the run
  int stages = 1;                          ///< of the network
  int first_rank = 0;                      ///< of the grid
  int groups = 1, replicas = 1, parts = 1; ///< extents of the axes
  std::vector<int> first_stage;            ///< of each group, and `stages` at the end: groups + 1 values

  int size() const { return groups * replicas * parts; }
  bool ownsStages(int rank) const { return rank >= first_rank && rank < first_rank + size(); }
  /// The coordinates of a rank that owns stages.
  int coordinate(int rank, Axis axis) const;
  int group(int rank) const { return coordinate(rank, Axis::stage); }
  int replica(int rank) const { return coordinate(rank, Axis::replica); }
  int part(int rank) const { return coordinate(rank, Axis::part); }
  int rankAt(int group, int replica, int part = 0) const {
    return first_rank + group + groups * (part + parts * replica);
  }
  int groupOf(int stage) const;
};

/// ranks = stages x replicas x parts, or fewer: consecutive stages then share a rank, balanced by their work.
/// `replicas` 0: as many as the ranks allow. Throws UserError if the number of ranks does not fit.
GridPlan dealStages(const Partition& partition, int ranks, int replicas, int parts = 1);

/// The grid of a strategy, plus the extra ranks that it needs. Throws UserError like `dealStages`.
GridPlan planGrid(const StrategySection& strategy, const Partition& partition, int ranks);

/// Parts of a stage that include one with the largest need, or nearly so. If there are up to four parts,
/// these are all parts. Otherwise they are the first part, which has the largest ranges, and for each grid of
/// parts the one at (1, 1), which has neighbours on every side. If the places are divided, they are all
/// blocks of the first range and of inner ones along each axis.
std::vector<int> typicalParts(const StagePlan& stage, int parts);

/// The place of a stage on its rank of the grid.
StagePlace stagePlaceOf(const GridPlan& grid, int stage);

/// Memory of stage `stage` on its rank of the grid; if it has several parts, the largest.
StageMemory stageMemory(const RunConfig& config, const Partition& partition, const GridPlan& grid, int stage,
                        const DeviceKind& device = {});
/// The same for one part.
StageMemory partMemory(const RunConfig& config, const Partition& partition, const GridPlan& grid, int stage,
                       int part, const DeviceKind& device = {});

} // namespace partita
