#pragma once

#include "partita/plan/strategy_plan.hpp"

namespace partita {

/// One function per file of this folder; each returns the plan of its strategy.
const StrategyPlan& jointPlan();
const StrategyPlan& pipelinePlan();
const StrategyPlan& silPlan();
const StrategyPlan& localSgdPlan();
const StrategyPlan& hogbatchPlan();

} // namespace partita
