#include "partita/comm/agree.hpp"
#include "partita/config/deck.hpp"
#include "partita/config/text.hpp"
#include "partita/core/log.hpp"
#include "partita/io/json.hpp"
#include "partita/io/output_file.hpp"
#include "partita/plan/cost/cost_model.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>

#include "commands.hpp"
#include "cost_task.hpp"

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
  for (const std::string& number : split(arguments.ranks, ',')) question.ranks.push_back(std::stoll(number));
  const bool paper = question.mode == CostMode::paper;
  question.batch_per_replica = arguments.scaling.empty() ? paper : arguments.scaling == "weak";
  return question;
}

CostModel modelOf(const PredictArguments& arguments, const Question& question, const Cluster& cluster) {
  const RunConfig config = effective(loadDeck(arguments.deck, arguments.overrides));
  CostTask task = costTaskOf(arguments.deck, config, cluster);
  task.batch_per_replica = question.batch_per_replica;
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
                        "' needs --mode exact; the paper has no grids");
      row.predictions.push_back(model.predict(strategy, ranks));
      const Prediction& last = row.predictions.back();
      if (last.feasible()) row.fastest = std::min(row.fastest, last.epochSeconds());
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

JsonObject jsonOf(const Prediction& prediction) {
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  const auto time = [&](double seconds) { return prediction.hasTimes() ? seconds : unknown; };
  JsonObject communication, object;
  for (const Exchange& exchange : prediction.exchanges)
    communication.add(nameOf(exchange.kind), prediction.steps * exchange.seconds);
  object.add("strategy", nameOf(prediction.strategy));
  object.add("split", prediction.split);
  object.add("ranks", prediction.ranks);
  object.add("stages", prediction.grid.stages);
  object.add("replicas", prediction.grid.replicas);
  object.add("parts", prediction.grid.parts);
  object.add("feasible", prediction.feasible());
  object.add("reason", nameOf(prediction.obstacle));
  object.add("step_s", time(prediction.stepSeconds()));
  object.add("epoch_s", time(prediction.epochSeconds()));
  object.add("epoch_compute_s", time(prediction.epoch_compute));
  object.add("epoch_communication_s", time(prediction.epochCommunication()));
  object.add("communication", communication);
  object.add("memory_bytes", time(prediction.memory));
  object.add("limiter", prediction.limiter());
  return object;
}

std::string jsonText(const std::vector<RankRow>& rows) {
  std::string text;
  for (const RankRow& row : rows)
    for (const Prediction& prediction : row.predictions)
      text += (text.empty() ? "[\n  " : ",\n  ") + jsonOf(prediction).text(2);
  return text + "\n]";
}

/// Three digits and a unit, since steps take from microseconds to minutes.
std::string timeText(double seconds) {
  constexpr double minutes = 600.0;
  if (seconds >= minutes) return formatSeconds(seconds);
  const char* const unit = seconds >= 1.0 ? "s" : seconds >= 1e-3 ? "ms" : "us";
  const double scaled = seconds * (seconds >= 1.0 ? 1.0 : seconds >= 1e-3 ? 1e3 : 1e6);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(),
                scaled < 10.0    ? "%.2f %s"
                : scaled < 100.0 ? "%.1f %s"
                                 : "%.0f %s",
                scaled, unit);
  return text.data();
}

/// "best", or by how much longer an epoch takes than with the best strategy on as many ranks.
std::string marginOf(const Prediction& prediction, double fastest) {
  if (!prediction.feasible()) return "-";
  const double ratio = prediction.epochSeconds() / fastest;
  constexpr double rounding = 1e-9;
  if (ratio <= 1.0 + rounding) return "best";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), ratio < 10.0 ? "+%.0f %%" : "%.0f x",
                ratio < 10.0 ? 100.0 * (ratio - 1.0) : ratio);
  return text.data();
}

void showLine(const std::array<std::string, 8>& columns, const std::string& last) {
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "%-12s %6s %-12s %10s %10s %10s %10s %9s", columns[0].c_str(),
                columns[1].c_str(), columns[2].c_str(), columns[3].c_str(), columns[4].c_str(),
                columns[5].c_str(), columns[6].c_str(), columns[7].c_str());
  Log::info(std::string(line.data()) + "  " + last);
}

void showPrediction(const Prediction& prediction, double fastest) {
  const RankGrid& grid = prediction.grid;
  const std::string ranks = std::to_string(prediction.ranks);
  const std::string shape = joined(std::vector<std::int64_t>{grid.stages, grid.replicas, grid.parts}, " x ");
  if (!prediction.hasTimes())
    return showLine({nameOf(prediction.strategy), ranks, shape, "-", "-", "-", "-", "-"},
                    prediction.limiter());
  std::string kinds = prediction.limiter();
  for (const Exchange& exchange : prediction.exchanges)
    kinds += "; " + nameOf(exchange.kind) + " " + timeText(exchange.seconds);
  showLine({nameOf(prediction.strategy), ranks, shape, timeText(prediction.stepSeconds()),
            timeText(prediction.epochSeconds()), timeText(prediction.epoch_compute / prediction.steps),
            formatBytes(prediction.memory), marginOf(prediction, fastest)},
           kinds);
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
  Log::info("batch: " + formatCount(task.batch) +
            (task.batch_per_replica ? " samples per replica, " : " samples, ") + formatCount(task.samples) +
            " per epoch; mode " + nameOf(question.mode));
  Log::info("grid: stages x replicas x parts; margin: to the best strategy on as many ranks\n");
  showLine({"strategy", "ranks", "grid", "step", "epoch", "computing", "memory", "margin"},
           "largest part; communication per step");
  for (const RankRow& row : rows)
    for (const Prediction& prediction : row.predictions) showPrediction(prediction, row.fastest);
}

void predict(const PredictArguments& arguments) {
  const Question question = questionOf(arguments);
  std::optional<OutputFile> file; // first, so that a bad path is reported at once
  if (!arguments.json.empty() && arguments.json != "-") {
    refuseInput(arguments.json, {arguments.deck, arguments.cluster});
    file.emplace(arguments.json);
  }
  const Cluster cluster = arguments.cluster.empty() ? Cluster{} : loadCluster(arguments.cluster);
  const CostModel model = modelOf(arguments, question, cluster);
  const std::vector<RankRow> rows = predictAll(model, question);
  if (arguments.json == "-") return Log::info(jsonText(rows));
  showTable(model, question, cluster, rows);
  if (file) {
    file->write(jsonText(rows) + "\n");
    file->commit();
  }
}

} // namespace

void runPredict(const Communicator& world, const PredictArguments& arguments) {
  collectively(world, [&] {
    if (world.rank() == 0) predict(arguments);
  });
}

} // namespace partita
