#include "partita/plan/grid_plan.hpp"

#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/balanced_cuts.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/parts/copy_on_part.hpp"
#include "partita/plan/parts/flow.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <set>

namespace partita {

int GridPlan::coordinate(int rank, Axis axis) const {
  rank -= first_rank;
  switch (axis) {
  case Axis::stage:
    return rank % groups;
  case Axis::replica:
    return rank / groups / parts;
  case Axis::part:
    return rank / groups % parts;
  }
  return 0;
}

int GridPlan::groupOf(int stage) const {
  int group = 0;
  while (first_stage[group + 1] <= stage) ++group;
  return group;
}

namespace {

/// The numbers of ranks that a grid may have, `each` per stage that has ranks of its own. `replicas` is 0 if
/// they follow from the ranks.
std::string fittingRanks(int stages, int replicas, int parts) {
  const std::int64_t each = std::int64_t{std::max(1, replicas)} * parts, all = stages * each;
  const std::string multiple = "a multiple of ";
  if (stages == 1) return replicas > 0 ? counted(each, "rank") : multiple + counted(each, "rank");
  const std::string fewer = each == 1 ? "at most " + counted(all, "rank")
                                      : multiple + counted(each, "rank") + ", at most " + std::to_string(all);
  return replicas > 0 ? fewer : fewer + ", or " + multiple + std::to_string(all);
}

} // namespace

GridPlan dealStages(const Partition& partition, int ranks, int replicas, int parts) {
  GridPlan grid;
  grid.ranks = ranks;
  grid.stages = static_cast<int>(partition.stages.size());
  grid.parts = parts;
  const std::int64_t of_a_replica = std::int64_t{grid.stages} * parts;
  grid.replicas = replicas > 0 ? replicas : std::max(1, static_cast<int>(ranks / of_a_replica));
  grid.groups = static_cast<int>(ranks / (std::int64_t{grid.replicas} * parts));
  if (grid.size() != ranks || grid.groups > grid.stages || grid.groups == 0) {
    throw UserError((ranks == 1 ? "1 rank does not fit " : std::to_string(ranks) + " ranks do not fit ") +
                    counted(grid.stages, "stage") +
                    (replicas > 0 ? " x " + counted(replicas, "replica") : "") +
                    (parts > 1 ? " x " + counted(parts, "part") : "") + "; start " +
                    fittingRanks(grid.stages, replicas, parts));
  }
  grid.first_stage.push_back(0);
  std::vector<double> before{0.0}; // the effort of stages [0, i)
  for (const Effort& effort : partition.local) before.push_back(before.back() + effort.total());
  const std::vector<std::int64_t> dealt = balancedCuts(before, grid.groups);
  grid.first_stage.insert(grid.first_stage.end(), dealt.begin(), dealt.end());
  grid.first_stage.push_back(grid.stages);
  return grid;
}

GridPlan planGrid(const StrategySection& strategy, const Partition& partition, int ranks) {
  const int others = planOf(strategy).ranksWithoutStage(strategy);
  planOf(strategy).checkRanks(strategy, ranks);
  GridPlan grid = dealStages(partition, ranks - others, static_cast<int>(strategy.replicas),
                             static_cast<int>(strategy.parts));
  grid.ranks = ranks;
  grid.first_rank = others;
  return grid;
}

namespace {

/// The first range along an axis of places, and inner ones, which have neighbours on both sides. In layers
/// whose places cannot be divided evenly, these are the last of the larger ranges: the farther a range is
/// from the first one, the less it matches the windows of the next layers.
std::set<int> typicalRanges(const StagePlan& stage, std::size_t axis) {
  const int ranges = stage.place_grid[axis];
  std::set<int> chosen{0};
  for (const LayerPlan* layer : leavesOf(stage.layers)) {
    if (!layer->rules().windows(*layer) || !placesDivisible(layer->in, stage.place_grid)) continue;
    const auto larger = static_cast<int>(allPlaces(layer->in).axes[axis].size() % ranges);
    if (larger > 1) chosen.insert(larger - 1);
  }
  if (chosen.size() == 1 && ranges > 1) chosen.insert(1);
  return chosen;
}

std::vector<int> typicalBlocks(const StagePlan& stage) {
  std::vector<int> chosen;
  for (const int z : typicalRanges(stage, 0))
    for (const int y : typicalRanges(stage, 1))
      for (const int x : typicalRanges(stage, 2))
        chosen.push_back((z * stage.place_grid[1] + y) * stage.place_grid[2] + x);
  return chosen;
}

} // namespace

std::vector<int> typicalParts(const StagePlan& stage, int parts) {
  constexpr int few = 4;
  if (parts > few && stage.place_grid != PlaceGrid{1, 1, 1}) return typicalBlocks(stage);
  std::vector<int> chosen;
  for (int part = 0; part < parts && (parts <= few || part < 2); ++part) chosen.push_back(part);
  for (int width = 2; parts > few && width < parts; ++width)
    if (parts % width == 0) chosen.push_back(width + 1);
  return chosen;
}

StagePlace stagePlaceOf(const GridPlan& grid, int stage) {
  StagePlace place{grid.groupOf(stage), grid.groups, grid.replicas};
  const std::size_t group = place.group;
  place.first = stage == grid.first_stage[group];
  place.last = stage + 1 == grid.first_stage[group + 1];
  return place;
}

StageMemory stageMemory(const RunConfig& config, const Partition& partition, const GridPlan& grid, int stage,
                        const DeviceKind& device) {
  StageMemory largest;
  for (const int part : typicalParts(partition.stages[stage], grid.parts)) {
    const StageMemory other = partMemory(config, partition, grid, stage, part, device);
    if (other.total() > largest.total()) largest = other;
  }
  return largest;
}

StageMemory partMemory(const RunConfig& config, const Partition& partition, const GridPlan& grid, int stage,
                       int part, const DeviceKind& device) {
  const StagePlace place = stagePlaceOf(grid, stage);
  if (config.strategy.parts == 1) return stageMemory(partition.stages[stage], config, place, device);
  StagePlan own = partOfStage(partition.stages[stage], config.strategy, part);
  for (ParameterCopy& copy : own.copies) copy = copyOnPart(copy, partition.stages, config.strategy, part);
  return stageMemory(own, config, place, device);
}

} // namespace partita
