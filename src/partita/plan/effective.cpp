#include "partita/plan/effective.hpp"

namespace partita {

RunConfig effective(RunConfig config) {
  if (config.strategy.kind == StrategyKind::joint) {
    config.strategy.stages = 1;
    config.strategy.cuts.clear();
    config.strategy.cut_rule = CutRule::flops;
    config.strategy.input = StageInput::relay;
    config.strategy.recovery_epochs = 0;
  }
  return config;
}

} // namespace partita
