#include "partita/plan/strategy_plan.hpp"

#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

double Meetings::perStep(double steps) const {
  const auto interval = static_cast<double>(every);
  if (steps < 1.0) return 1.0 / interval;
  const double first = std::min(static_cast<double>(warm_up), steps);
  const double regular = std::floor(steps / interval) - std::floor(first / interval);
  const bool at_end = first < steps && std::fmod(steps, interval) > 0.0;
  return (first + regular + (at_end ? 1.0 : 0.0)) / steps;
}

void StrategyPlan::checkEarlyEnd(const StrategySection&, int wanted) const {
  throw UserError("--stages " + std::to_string(wanted) +
                  ": only the last stage predicts classes, because the network was trained as one");
}

void StrategyPlan::addOwnLoss(const StrategySection&, const std::vector<LayerPlan>&, StagePlan&) const {}

Effort StrategyPlan::headEffort(const StrategySection&, const std::vector<LayerPlan>&, std::int64_t) const {
  return {};
}

Effort StrategyPlan::extraEffort(const StrategySection&, const std::vector<LayerPlan>&, std::int64_t,
                                 std::int64_t, int) const {
  return {};
}

void StrategyPlan::checkStages(const StrategySection&, const std::vector<StagePlan>&, std::int64_t) const {}

std::int64_t StrategyPlan::extraLossValues(const StagePlan&, const RunConfig&, std::int64_t) const {
  return 0;
}

std::int64_t StrategyPlan::extraTapeValues(const StagePlan&, const StrategySection&) const {
  return 0;
}

double StrategyPlan::allowedSpeedup(const RunConfig&, const Partition& partition, const GridPlan&) const {
  return partition.allowedSpeedup();
}

void StrategyPlan::setPhases(const StrategySection&, RunLength&) const {}

std::vector<std::pair<std::string, std::string>> StrategyPlan::facts(const StrategySection&) const {
  return {};
}

std::string speedupText(double speedup, const GridPlan& grid) {
  const std::string replica = grid.replicas > 1 ? "each replica " : "",
                    over = grid.parts > 1 ? std::to_string(grid.parts) + " ranks that share all layers"
                                          : "one rank";
  return "# the cuts allow " + replica + "a speed-up of " + formatted("%.2f", speedup) + " over " + over;
}

RunConfig effective(RunConfig config) {
  StrategySection& strategy = config.strategy;
  planOf(strategy).normalise(strategy);
  if (strategy.parts > 1) return config;
  strategy.split = Split::grid;
  strategy.parts_grid = {{0}};
  return config;
}

} // namespace partita
