#include "partita/plan/run_length.hpp"

#include "partita/config/user_error.hpp"
#include "partita/plan/strategy_plan.hpp"

namespace partita {

std::int64_t RunLength::runStep(const Position& position) const {
  if (position.phase == RunPhase::recovery) return steps * turns + position.step;
  return steps * position.stage + position.step;
}

RunLength planRunLength(const RunConfig& config, std::size_t samples) {
  RunLength length;
  length.per_epoch = static_cast<std::int64_t>(samples) / config.training.batch;
  if (length.per_epoch == 0) {
    throw UserError("training/batch: a batch of " + std::to_string(config.training.batch) +
                    " samples is larger than the training set of " + std::to_string(samples));
  }
  length.steps = config.run.steps > 0 ? config.run.steps : config.run.epochs * length.per_epoch;
  planOf(config.strategy).setPhases(config.strategy, length);
  return length;
}

} // namespace partita
