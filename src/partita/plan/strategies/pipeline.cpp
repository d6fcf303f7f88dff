#include "partita/plan/strategies/pipeline.hpp"

#include "partita/config/names.hpp"
#include "partita/config/text.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/parts/part_traffic.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/strategies/table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace partita {

namespace {

/// "# 4 microbatches of at most 8 samples, 1f1b; activations kept by rank: 2 1".
std::string microbatchText(const StrategySection& strategy, std::int64_t share, const GridPlan& grid) {
  const std::int64_t count = microbatchesOf(strategy, share);
  std::string line = "# " + counted(count, "microbatch") + " of at most " +
                     counted(microbatchRows(strategy, share), "sample");
  if (grid.groups == 1) return line;
  line += ", " + nameOf(strategy.pipeline.schedule) + "; activations kept by rank:";
  constexpr int most_shown = 16;
  for (int group = 0; group < std::min(grid.groups, most_shown); ++group)
    line += " " + std::to_string(liveWindow(strategy, group, grid.groups, count));
  return line + (grid.groups > most_shown ? " ..." : "");
}

/// The effort per sample of the busiest rank.
double slowestGroup(const Partition& partition, const GridPlan& grid) {
  double slowest = 0.0;
  for (int group = 0; group < grid.groups; ++group) {
    double effort = 0.0;
    for (int stage = grid.first_stage[static_cast<std::size_t>(group)];
         stage < grid.first_stage[static_cast<std::size_t>(group) + 1]; ++stage)
      effort += partition.local[static_cast<std::size_t>(stage)].total();
    slowest = std::max(slowest, effort);
  }
  return slowest;
}

} // namespace

void PipelinePlan::checkStages(const StrategySection& section, const std::vector<StagePlan>& stages,
                               std::int64_t) const {
  checkParts(section, stages);
}

PlanNotes PipelinePlan::notes(const RunConfig& config, const Partition& partition,
                              const GridPlan& grid) const {
  const std::int64_t share = (config.training.batch + grid.replicas - 1) / grid.replicas,
                     count = microbatchesOf(config.strategy, share);
  PlanNotes notes;
  notes.lines = trafficNotes(config, partition, grid);
  if (count > 1 || grid.groups > 1) notes.lines.push_back(microbatchText(config.strategy, share, grid));
  if (grid.groups == 1) return notes;
  const double busy = static_cast<double>(count) / static_cast<double>(count + grid.groups - 1);
  std::array<char, 160> text{};
  std::snprintf(
      text.data(), text.size(),
      "# the cuts allow a speed-up of %.2f over one rank; the slowest rank is busy %.0f %% of the time",
      busy * partition.joint.total() / slowestGroup(partition, grid), 100.0 * busy);
  notes.lines.emplace_back(text.data());
  return notes;
}

const StrategyPlan& pipelinePlan() {
  static const PipelinePlan plan;
  return plan;
}

const StrategyPlan& jointPlan() {
  static const JointPlan plan;
  return plan;
}

} // namespace partita
