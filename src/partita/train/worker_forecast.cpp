#include "partita/train/worker_forecast.hpp"

#include "partita/plan/cost/cluster_file.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <limits>

namespace partita {

WorkerForecast forecastWorkers(const RunConfig& config, const CostTask& task, const std::string& deck,
                               std::int64_t ranks, const Cluster& cluster) {
  MixTask known;
  known.deck = deck;
  known.parameters = task.program->parameters();
  known.examples = static_cast<std::int64_t>(task.samples);
  const CostModel model(task, cluster, CostMode::exact);
  for (const LayerTime& time : model.times()) known.seconds_per_example += time.perSample();
  WorkerForecast result;
  result.mix = workerMix(config, ranks, known, cluster);
  result.forecast = forecastOf(result.mix);
  result.timed = knowsWorkers(ranks, known, cluster);
  return result;
}

std::optional<WorkerForecast> predictedWorkers(const RunConfig& config, const DataSets& sets,
                                               const GridPlan& grid) {
  if (config.run.cluster.empty() || !planOf(config.strategy).atOwnPace() || grid.ranks < 2) return {};
  const Cluster cluster = loadCluster(config.run.cluster);
  CostTask task = costTask(config, sets.shape, sets.classes, sets.train.size());
  task.timing = cluster.timing("", task.program->parameters());
  return forecastWorkers(config, task, "", grid.ranks, cluster);
}

MeasuredUse measuredUse(const WorkersSnapshot& snapshot, std::int64_t examples) {
  double updates = 0.0, done = 0.0, computed = 0.0, staleness = 0.0;
  for (const WorkerCounts& worker : snapshot.workers) {
    updates += static_cast<double>(worker.updates);
    computed += static_cast<double>(worker.updates + worker.dropped);
    done += static_cast<double>(worker.examples);
    staleness += worker.staleness_sum;
  }
  MeasuredUse use;
  for (const WorkerCounts& worker : snapshot.workers)
    use.shares.push_back(static_cast<double>(worker.updates) / std::max(1.0, updates));
  use.examples_per_second = done / snapshot.seconds;
  use.staleness_mean = staleness / std::max(1.0, computed);
  use.epoch_seconds = static_cast<double>(examples) / use.examples_per_second;
  return use;
}

std::vector<std::string> linesOf(const WorkerForecast& forecast) {
  std::vector<std::string> lines = forecastLines(forecast.mix, forecast.forecast);
  if (!forecast.timed)
    lines.insert(lines.begin(), "speeds of workers: assumed equal, because the cluster file lacks a "
                                "[[worker]] row of this network for some of them");
  return lines;
}

namespace {

JsonObject workerObject(const WorkerForecast& forecast, std::size_t index, double share) {
  const WorkerMix& mix = forecast.mix;
  const Course& course = forecast.forecast.course;
  const WorkerCourse& own = course.workers[index];
  const bool shared = mix.groups[mix.workers[index].group].role == WorkerRole::shared;
  JsonObject object;
  object.add("rank", static_cast<std::int64_t>(index) + 1);
  object.add("role", shared ? "shared" : "replica");
  object.add("overhead_s", mix.workers[index].overhead);
  object.add("solo_examples_per_second", mix.workers[index].speed);
  object.add("update_share", share);
  object.add("example_share", static_cast<double>(own.examples) / static_cast<double>(course.examples));
  object.add("batch_first", own.batch_first);
  object.add("batch_last", own.batch_last);
  object.add("busy", own.busy / course.seconds);
  object.add("staleness_mean", own.stalenessMean());
  object.add("staleness_max", own.staleness_max);
  return object;
}

JsonObject wayObject(const UseForecast& way, double own_progress) {
  JsonObject object;
  object.add("examples_per_second", way.examples_per_second);
  object.add("progress", way.progress_per_second / own_progress);
  object.add("batches", way.batches);
  return object;
}

JsonObject useObject(const MeasuredUse& use) {
  JsonObject object;
  object.add("epoch_s", use.epoch_seconds);
  object.add("examples_per_second", use.examples_per_second);
  object.add("update_share", use.shares);
  object.add("staleness_mean", use.staleness_mean);
  return object;
}

} // namespace

JsonObject jsonOf(const WorkerForecast& forecast) {
  const HogbatchForecast& expected = forecast.forecast;
  const MeasuredUse use = expectedUse(expected);
  std::vector<JsonObject> workers;
  for (std::size_t i = 0; i < forecast.mix.workers.size(); ++i)
    workers.push_back(workerObject(forecast, i, use.shares[i]));
  JsonObject ways, object;
  for (const WorkerUse way : {WorkerUse::asynchronous, WorkerUse::synchronous, WorkerUse::alone})
    ways.add(nameOf(way), wayObject(expected.of(way), expected.course.progressPerSecond()));
  object.add("strategy", "hogbatch");
  object.add("ranks", static_cast<std::int64_t>(workers.size()) + 1);
  object.add("timed", forecast.timed);
  object.add("epoch_s", use.epoch_seconds);
  object.add("examples_per_second", use.examples_per_second);
  object.add("staleness_mean", use.staleness_mean);
  object.add("staleness_max", expected.course.stalenessMax());
  object.add("price_of_balance", expected.price_of_balance);
  object.add("workers", workers);
  object.add("ways", ways);
  object.add("better", nameOf(expected.best));
  object.add("gain", expected.gain);
  return object;
}

void addUses(JsonObject& json, const MeasuredUse& predicted, const MeasuredUse& measured) {
  const auto error = [](double expected, double found) {
    return found > 0.0 ? expected / found - 1.0 : std::numeric_limits<double>::quiet_NaN();
  };
  MeasuredUse errors;
  errors.epoch_seconds = error(predicted.epoch_seconds, measured.epoch_seconds);
  errors.examples_per_second = error(predicted.examples_per_second, measured.examples_per_second);
  errors.staleness_mean = error(predicted.staleness_mean, measured.staleness_mean);
  for (std::size_t i = 0; i < std::min(predicted.shares.size(), measured.shares.size()); ++i)
    errors.shares.push_back(predicted.shares[i] - measured.shares[i]);
  json.add("predicted", useObject(predicted));
  json.add("measured", useObject(measured));
  json.add("prediction_error", useObject(errors));
}

} // namespace partita
