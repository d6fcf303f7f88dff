#include "predict_workers.hpp"

#include "partita/config/deck.hpp"
#include "partita/config/names.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/train/worker_forecast.hpp"

#include <filesystem>

#include "plan_task.hpp"

namespace partita {

namespace {

void showWorkers(const WorkerForecast& forecast) {
  Log::info("\n" + std::to_string(forecast.mix.workers.size() + 1) + " ranks; rank 0 coordinates");
  for (const std::string& line : linesOf(forecast)) Log::info(line);
}

} // namespace

bool predictsWorkers(const PredictArguments& arguments) {
  if (!arguments.strategies.empty() || arguments.mode == nameOf(CostMode::paper)) return false;
  return planOf(loadDeck(arguments.deck, arguments.overrides).strategy).atOwnPace();
}

void predictWorkers(const PredictArguments& arguments, const std::vector<std::int64_t>& ranks,
                    const Cluster& cluster, ResultFile& file) {
  const RunConfig config = loadDeck(arguments.deck, arguments.overrides);
  const CostTask task = planTask(arguments.deck, arguments.overrides, cluster).task;
  const std::string deck = std::filesystem::path(arguments.deck).stem().string();
  std::vector<WorkerForecast> forecasts;
  std::vector<JsonObject> list;
  std::string reason;
  for (const std::int64_t number : ranks) {
    try {
      planOf(config.strategy).checkRanks(config.strategy, static_cast<int>(number));
    } catch (const UserError& error) {
      reason = error.what();
      continue;
    }
    forecasts.push_back(forecastWorkers(config, task, deck, number, cluster));
    list.push_back(jsonOf(forecasts.back()));
  }
  if (list.empty()) throw UserError(reason);
  file.write(listText(list));
  if (file.isStandardOutput()) return;
  Log::info("cluster: " + cluster.name + " (" + cluster.source + ")");
  for (const WorkerForecast& forecast : forecasts) showWorkers(forecast);
}

} // namespace partita
