#include "partita/plan/grid_plan.hpp"

#include "partita/config/user_error.hpp"
#include "partita/plan/balanced_cuts.hpp"

#include <algorithm>
#include <numeric>

namespace partita {

int GridPlan::groupOf(int stage) const {
  int group = 0;
  while (first_stage[static_cast<std::size_t>(group) + 1] <= stage) ++group;
  return group;
}

GridPlan planGrid(const StrategySection& strategy, const Partition& partition, int ranks) {
  GridPlan grid;
  grid.ranks = ranks;
  grid.stages = static_cast<int>(partition.stages.size());
  grid.replicas =
      strategy.replicas > 0 ? static_cast<int>(strategy.replicas) : std::max(1, ranks / grid.stages);
  grid.groups = ranks / grid.replicas;
  if (grid.groups * grid.replicas != ranks || grid.groups > grid.stages || grid.groups == 0) {
    throw UserError(std::to_string(ranks) + (ranks == 1 ? " rank does" : " ranks do") + " not fit " +
                    std::to_string(grid.stages) + " stages" +
                    (strategy.replicas > 0 ? " x " + std::to_string(grid.replicas) + " replicas" : "") +
                    ": start stages x replicas ranks, or at most as many ranks as stages");
  }
  grid.first_stage.push_back(0);
  const auto dealt = balancedCuts(grid.stages, grid.groups, [&](std::int64_t first, std::int64_t last, int) {
    return std::accumulate(partition.local_flops.begin() + first, partition.local_flops.begin() + last, 0.0);
  });
  grid.first_stage.insert(grid.first_stage.end(), dealt.begin(), dealt.end());
  grid.first_stage.push_back(grid.stages);
  return grid;
}

StageMemory stageMemory(const RunConfig& config, const Partition& partition, const GridPlan& grid, int stage,
                        const DeviceKind& device) {
  StagePlace place{grid.groupOf(stage), grid.groups, grid.replicas};
  const auto group = static_cast<std::size_t>(place.group);
  place.first = stage == grid.first_stage[group];
  place.last = stage + 1 == grid.first_stage[group + 1];
  return stageMemory(partition.stages[static_cast<std::size_t>(stage)], config, place, device);
}

} // namespace partita
