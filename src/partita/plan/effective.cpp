#include "partita/plan/effective.hpp"

namespace partita {

RunConfig effective(RunConfig config) {
  StrategySection& strategy = config.strategy;
  if (strategy.kind == StrategyKind::joint) {
    strategy.stages = 1;
    strategy.cuts.clear();
    strategy.cut_rule = CutRule::flops;
  }
  if (strategy.kind != StrategyKind::sil) {
    strategy.input = StageInput::relay;
    strategy.recovery_epochs = 0;
  }
  return config;
}

} // namespace partita
