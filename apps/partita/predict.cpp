#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/plan/cost/cost_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "commands.hpp"
#include "plan_task.hpp"
#include "predict_workers.hpp"
#include "result_file.hpp"

namespace partita {

namespace {

/// What the command asks for, with names and numbers resolved.
struct Question {
  CostMode mode = CostMode::exact;
  std::vector<CostStrategy> strategies; ///< empty: all of the mode
  std::vector<std::int64_t> ranks;
  bool batch_per_replica = false;
};

Question questionOf(const PredictArguments& arguments) {
  Question question;
  if (arguments.mode == nameOf(CostMode::paper)) question.mode = CostMode::paper;
  const std::vector<std::string>& names = namesOf<CostStrategy>();
  for (const std::string& name : split(arguments.strategies, ',')) // the command line has checked them
    question.strategies.push_back(
        static_cast<CostStrategy>(std::find(names.begin(), names.end(), name) - names.begin()));
  for (const std::string& number : split(arguments.ranks, ',')) {
    const std::int64_t ranks = std::stoll(number);
    const bool again = std::find(question.ranks.begin(), question.ranks.end(), ranks) != question.ranks.end();
    if (!again) question.ranks.push_back(ranks);
  }
  const bool paper = question.mode == CostMode::paper;
  question.batch_per_replica = arguments.scaling.empty() ? paper : arguments.scaling == "weak";
  return question;
}

CostModel modelOf(const PredictArguments& arguments, const Question& question, const Cluster& cluster) {
  CostTask task = planTask(arguments.deck, arguments.overrides, cluster).task;
  task.batch_per_replica = question.batch_per_replica;
  task.stages = arguments.stages;
  task.parts = arguments.parts;
  if (task.stages > 0 && question.mode == CostMode::paper)
    throw UserError("command line: --stages needs --mode exact; the paper has one stage per rank");
  if (task.parts > 0 && question.mode == CostMode::paper)
    throw UserError("command line: --parts needs --mode exact; the paper divides layers inside a node");
  return {task, cluster, question.mode};
}

/// All strategies on the same number of ranks, with the time of the fastest that is feasible.
struct RankRow {
  std::vector<Prediction> predictions;
  double fastest = std::numeric_limits<double>::infinity();
};

std::vector<RankRow> predictAll(const CostModel& model, const Question& question) {
  std::vector<CostStrategy> strategies = question.strategies;
  for (std::size_t i = 0; question.strategies.empty() && i < namesOf<CostStrategy>().size(); ++i)
    if (model.has(static_cast<CostStrategy>(i))) strategies.push_back(static_cast<CostStrategy>(i));
  std::vector<RankRow> rows;
  for (const std::int64_t ranks : question.ranks) {
    RankRow row;
    for (const CostStrategy strategy : strategies) {
      if (!model.has(strategy))
        throw UserError("command line: strategy '" + nameOf(strategy) +
                        "' needs --mode exact; the paper does not have it");
      row.predictions.push_back(model.predict(strategy, ranks));
      const Prediction& last = row.predictions.back();
      if (last.feasible()) row.fastest = std::min(row.fastest, last.epochSeconds());
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// The largest batch of the predictions with times, over all replicas.
double largestBatch(const std::vector<RankRow>& rows) {
  double largest = 0.0;
  for (const RankRow& row : rows)
    for (const Prediction& prediction : row.predictions)
      if (prediction.hasTimes()) largest = std::max(largest, prediction.batch);
  return largest;
}

std::vector<JsonObject> listOf(const std::vector<RankRow>& rows, const Question& question,
                               const Cluster& cluster) {
  std::vector<JsonObject> list;
  for (const RankRow& row : rows) {
    for (const Prediction& prediction : row.predictions) {
      list.push_back(jsonOf(prediction));
      list.back().add("mode", nameOf(question.mode));
      list.back().add("cluster", cluster.name);
    }
  }
  return list;
}

/// "best", or how much longer an epoch takes than with the best strategy on the same number of ranks.
std::string marginOf(const Prediction& prediction, double fastest) {
  if (!prediction.feasible()) return "-";
  constexpr double rounding = 1e-9, readable = 1e6;
  if (prediction.epochSeconds() <= (1.0 + rounding) * fastest) return "best"; // both may be 0
  const double ratio = prediction.epochSeconds() / fastest;
  return formatted(ratio < 10.0       ? "+%.0f %%"
                   : ratio < readable ? "%.0f x"
                                      : "%.1e x",
                   ratio < 10.0 ? 100.0 * (ratio - 1.0) : ratio);
}

void showLine(const std::array<std::string, 8>& columns, const std::string& last) {
  Log::info(formatted("%-23s %6s %-12s %10s %10s %10s %10s %9s  %s", columns[0].c_str(), columns[1].c_str(),
                      columns[2].c_str(), columns[3].c_str(), columns[4].c_str(), columns[5].c_str(),
                      columns[6].c_str(), columns[7].c_str(), last.c_str()));
}

void showPrediction(const Prediction& prediction, double fastest) {
  const std::string ranks = std::to_string(prediction.ranks);
  const std::string shape = gridText(prediction.grid);
  if (!prediction.hasTimes())
    return showLine({nameOf(prediction.strategy), ranks, shape, "-", "-", "-", "-", "-"},
                    prediction.detail.empty() ? prediction.limiter() : prediction.detail);
  std::string kinds = prediction.limiter();
  if (prediction.grid.stages > 1 && prediction.microbatches > 1)
    kinds += "; " + counted(prediction.microbatches, "microbatch");
  for (const Exchange& exchange : prediction.exchanges) {
    kinds += "; " + nameOf(exchange.kind) + " " + timeText(exchange.seconds);
    if (exchange.hidden > 0.0) kinds += " (" + timeText(exchange.hidden) + " hidden)";
  }
  showLine({nameOf(prediction.strategy), ranks, shape, timeText(prediction.stepSeconds()),
            timeText(prediction.epochSeconds()), timeText(prediction.epoch_compute / prediction.steps),
            formatBytes(prediction.memory), marginOf(prediction, fastest)},
           kinds);
}

/// The same grid with the same numbers, as of `data` and `pipeline` on one rank.
bool sameCost(const Prediction& a, const Prediction& b) {
  return a.hasTimes() && b.hasTimes() && gridText(a.grid) == gridText(b.grid) &&
         a.stepSeconds() == b.stepSeconds() && a.epochSeconds() == b.epochSeconds() &&
         a.epoch_compute == b.epoch_compute && a.memory == b.memory;
}

/// Shows the strategies on one number of ranks; returns how many are left out because they are `sameCost` as
/// one before.
std::int64_t showRows(const RankRow& row, bool all) {
  std::int64_t left_out = 0;
  const std::vector<Prediction>& predictions = row.predictions;
  for (auto own = predictions.begin(); own != predictions.end(); ++own) {
    const bool again = std::any_of(predictions.begin(), own,
                                   [&](const Prediction& before) { return sameCost(before, *own); });
    if (again && !all)
      ++left_out;
    else
      showPrediction(*own, row.fastest);
  }
  return left_out;
}

void showTable(const CostModel& model, const Question& question, const Cluster& cluster,
               const std::vector<RankRow>& rows) {
  const CostTask& task = model.task();
  double seconds = 0.0;
  for (const LayerTime& time : model.times()) seconds += time.perSample();
  Log::info("cluster: " + cluster.name + " (" + cluster.source + ")");
  Log::info("network: " + formatCount(sumOf(task.layers, &LayerCost::weights)) + " weights, " +
            timeText(seconds) + " per sample on one rank, " +
            (task.timing.seconds_per_sample > 0.0 ? "from the cluster file" : "from FLOPs"));
  if (cluster.links.assumed) Log::info("links between ranks: assumed");
  Log::info("batch: " + formatCount(task.batch) +
            (task.batch_per_replica ? " samples per replica, " : " samples, ") + formatCount(task.samples) +
            " per epoch; mode " + nameOf(question.mode));
  Log::info("grid: stages x replicas x parts; margin: over the best strategy on the same number of ranks");
  Log::info(
      "strategies of decks: data is joint with replicas; spatial, filter, channel and grid are joint with "
      "strategy/parts\n");
  showLine({"strategy", "ranks", "grid", "step", "epoch", "computing", "memory", "margin"},
           "largest part; communication per step");
  std::int64_t left_out = 0;
  for (const RankRow& row : rows) left_out += showRows(row, !question.strategies.empty());
  if (left_out > 0)
    Log::info("\n" + counted(left_out, "row") +
              " left out, with the same grid and numbers as another strategy (--strategy shows them)");
}

} // namespace

void runPredict(const PredictArguments& arguments) {
  const Question question = questionOf(arguments);
  ResultFile file(arguments.json, filesRead(arguments.deck, arguments.overrides, arguments.cluster),
                  jsonList("strategy"), arguments.overwrite);
  const Cluster cluster = clusterOf(arguments.cluster);
  if (predictsWorkers(arguments)) return predictWorkers(arguments, question.ranks, cluster, file);
  const CostModel model = modelOf(arguments, question, cluster);
  const std::vector<RankRow> rows = predictAll(model, question);
  if (question.mode == CostMode::exact) warnWithoutWholeBatch(largestBatch(rows), model.task().samples);
  warnOfAssumptions(model.task(), cluster, *std::max_element(question.ranks.begin(), question.ranks.end()));
  file.write(listText(listOf(rows, question, cluster)));
  if (!file.isStandardOutput()) showTable(model, question, cluster, rows);
}

} // namespace partita
