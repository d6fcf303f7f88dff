#include "partita/plan/strategies/table.hpp"

#include <stdexcept>

namespace partita {

const StrategyPlan& planOf(StrategyKind kind) {
  switch (kind) {
  case StrategyKind::joint:
    return jointPlan();
  case StrategyKind::pipeline:
    return pipelinePlan();
  case StrategyKind::sil:
    return silPlan();
  case StrategyKind::local_sgd:
    return localSgdPlan();
  case StrategyKind::hogbatch:
    return hogbatchPlan();
  }
  throw std::logic_error("a kind of strategy without a plan");
}

} // namespace partita
