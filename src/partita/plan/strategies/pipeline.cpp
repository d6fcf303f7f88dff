#include "partita/plan/strategies/pipeline.hpp"

#include "partita/config/names.hpp"
#include "partita/config/text.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/parts/part_traffic.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/strategies/table.hpp"

#include <algorithm>

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

/// Effort of a step in units of a microbatch.
struct StepEffort {
  double slowest = 0.0; ///< of the rank that computes most
  double step = 0.0;    ///< until all ranks have finished, at the least
};

/// Rank i cannot begin before the first microbatch has passed all ranks before it, and the step is not over
/// before the gradient of its last microbatch has gone back through them.
StepEffort stepEffort(const Partition& partition, const GridPlan& grid, double microbatches) {
  StepEffort effort;
  double before = 0.0; // of the previous ranks
  for (int group = 0; group < grid.groups; ++group) {
    double own = 0.0;
    for (int stage = grid.first_stage[static_cast<std::size_t>(group)];
         stage < grid.first_stage[static_cast<std::size_t>(group) + 1]; ++stage)
      own += partition.local[static_cast<std::size_t>(stage)].total();
    effort.slowest = std::max(effort.slowest, microbatches * own);
    effort.step = std::max(effort.step, before + microbatches * own);
    before += own;
  }
  return effort;
}

std::int64_t microbatchCount(const RunConfig& config, const GridPlan& grid) {
  return microbatchesOf(config.strategy, largestShare(config.training.batch, grid.replicas));
}

} // namespace

void PipelinePlan::checkStages(const StrategySection& section, const std::vector<StagePlan>& stages,
                               std::int64_t) const {
  checkParts(section, stages);
}

double PipelinePlan::allowedSpeedup(const RunConfig& config, const Partition& partition,
                                    const GridPlan& grid) const {
  const auto microbatches = static_cast<double>(microbatchCount(config, grid));
  return microbatches * partition.joint.total() / stepEffort(partition, grid, microbatches).step;
}

PlanNotes PipelinePlan::notes(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                              std::int64_t real_bytes) const {
  const std::int64_t share = largestShare(config.training.batch, grid.replicas),
                     count = microbatchCount(config, grid);
  PlanNotes notes;
  notes.lines = trafficNotes(config, partition, grid, real_bytes);
  if (count > 1 || grid.groups > 1) notes.lines.push_back(microbatchText(config.strategy, share, grid));
  if (grid.groups == 1) return notes;
  const StepEffort effort = stepEffort(partition, grid, static_cast<double>(count));
  notes.lines.push_back(
      speedupText(allowedSpeedup(config, partition, grid), grid) +
      formatted("; the slowest rank is busy %.0f %% of the time", 100.0 * effort.slowest / effort.step));
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
