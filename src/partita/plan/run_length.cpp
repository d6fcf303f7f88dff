#include "partita/plan/run_length.hpp"

#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>

namespace partita {

namespace {

/// Limit by the schedule alone, without the deck's own limit and the number of microbatches.
std::int64_t windowOf(const StrategySection& strategy, int group, int groups, std::int64_t microbatches) {
  const std::int64_t after = groups - 1 - group;
  switch (strategy.pipeline.schedule) {
  case PipelineSchedule::one_f_one_b:
    return after + 1;
  case PipelineSchedule::eager_one_f_one_b:
    return 2 * after + 1;
  case PipelineSchedule::gpipe:
    return microbatches;
  case PipelineSchedule::message_driven:
    break;
  }
  const std::int64_t limit = strategy.pipeline.limit > 0 ? strategy.pipeline.limit : 2 * std::int64_t{groups};
  return strategy.pipeline.caps ? std::min<std::int64_t>(limit, after + 1 + groups / 2) : limit;
}

/// Steps of this many epochs; one more than a run may have if there would be more.
std::int64_t stepsOf(std::int64_t epochs, std::int64_t per_epoch) {
  return epochs > most_run_steps / per_epoch ? most_run_steps + 1 : epochs * per_epoch;
}

} // namespace

std::int64_t microbatchesOf(const StrategySection& strategy, std::int64_t rows) {
  return std::max<std::int64_t>(1, std::min(strategy.pipeline.microbatches, rows));
}

std::int64_t microbatchRows(const StrategySection& strategy, std::int64_t rows) {
  return largestShare(rows, microbatchesOf(strategy, rows));
}

std::int64_t liveWindow(const StrategySection& strategy, int group, int groups, std::int64_t microbatches) {
  if (group + 1 == groups) return 1;
  std::int64_t window = std::min(windowOf(strategy, group, groups, microbatches), microbatches);
  if (strategy.pipeline.limit > 0) window = std::min(window, strategy.pipeline.limit);
  return std::max<std::int64_t>(1, window);
}

std::int64_t smallerLimit(const StrategySection& strategy, int groups) {
  const PipelineSection& pipeline = strategy.pipeline;
  const bool by_schedule = pipeline.schedule == PipelineSchedule::message_driven && pipeline.limit == 0;
  return by_schedule && groups > 1 ? groups + (std::int64_t{groups} + 1) / 2 : 0;
}

std::int64_t RunLength::runStep(const Position& position) const {
  if (position.phase == RunPhase::recovery) return steps * turns + position.step;
  return steps * position.stage + position.step;
}

RunLength planRunLength(const RunConfig& config, std::int64_t samples) {
  RunLength length;
  length.per_epoch = samples / config.training.batch;
  if (length.per_epoch == 0) {
    throw UserError("training/batch: a batch of " + std::to_string(config.training.batch) +
                    " samples is larger than the training set of " + std::to_string(samples));
  }
  length.epoch_samples =
      planOf(config.strategy).sharesBatches() ? length.per_epoch * config.training.batch : samples;
  length.steps = config.run.steps > 0 ? config.run.steps : stepsOf(config.run.epochs, length.per_epoch);
  planOf(config.strategy).setPhases(config.strategy, length);
  return length;
}

void requireWorkForAll(const RunConfig& config, std::int64_t replicas) {
  if (config.training.batch >= replicas || !planOf(config.strategy).sharesSteps(config.strategy)) return;
  throw UserError("training/batch: a batch of " + counted(config.training.batch, "sample") +
                  " leaves some of the " + std::to_string(replicas) + " replicas or workers without work");
}

/// If sums of steps overflowed, a run would consider itself finished, and no signal could stop it.
void checkLength(const RunSection& run, const RunLength& length) {
  if (length.total() <= most_run_steps) return;
  throw UserError(std::string(run.steps > 0 ? "run/steps" : "run/epochs") +
                  ": the run would have more than " + std::to_string(most_run_steps) +
                  " steps in all its stages and phases (run/epochs, run/steps, strategy/recovery_epochs)");
}

} // namespace partita
