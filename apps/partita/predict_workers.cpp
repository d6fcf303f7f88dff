#include "predict_workers.hpp"

#include "partita/config/deck.hpp"
#include "partita/config/names.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/strategy.hpp"

#include <memory>
#include <utility>

#include "plan_task.hpp"

namespace partita {

bool predictsWorkers(const PredictArguments& arguments) {
  if (!arguments.strategies.empty() || arguments.mode == nameOf(CostMode::paper)) return false;
  return planOf(loadDeck(arguments.deck, arguments.overrides).strategy).atOwnPace();
}

void predictWorkers(const PredictArguments& arguments, const std::vector<std::int64_t>& ranks,
                    const Cluster& cluster, ResultFile& file) {
  if (arguments.stages > 0 || arguments.parts > 0 || !arguments.scaling.empty())
    throw UserError("command line: --stages, --parts and --scaling do not apply to workers of 'hogbatch'; "
                    "add --strategy to predict other strategies");
  const RunConfig config = loadDeck(arguments.deck, arguments.overrides);
  const CostTask task = planTask(arguments.deck, arguments.overrides, cluster).task;
  warnWithoutWholeBatch(task.batch, task.samples);
  std::vector<std::pair<std::int64_t, std::shared_ptr<const RunForecast>>> forecasts; // by number of ranks
  std::vector<JsonObject> list;
  std::string reason;
  for (const std::int64_t number : ranks) {
    try {
      const StrategyPlan& plan = planOf(config.strategy);
      plan.checkRanks(config.strategy, static_cast<int>(number));
      requireWorkForAll(config, number - plan.ranksWithoutStage(config.strategy));
    } catch (const UserError& error) {
      reason = error.what();
      continue;
    }
    forecasts.emplace_back(
        number, rulesOf(config.strategy).forecast(config, task, deckName(arguments.deck), number, cluster));
    list.push_back(forecasts.back().second->json());
    list.back().add("mode", nameOf(CostMode::exact));
    list.back().add("cluster", cluster.name);
  }
  if (list.empty()) throw UserError(reason);
  warnOfAssumptions(task, cluster, forecasts.back().first);
  file.write(listText(list));
  if (file.isStandardOutput()) return;
  Log::info("cluster: " + cluster.name + " (" + cluster.source + ")");
  for (const auto& [number, forecast] : forecasts) {
    Log::info("\n" + std::to_string(number) + " ranks; rank 0 coordinates");
    for (const std::string& line : forecast->lines()) Log::info(line);
  }
}

} // namespace partita
