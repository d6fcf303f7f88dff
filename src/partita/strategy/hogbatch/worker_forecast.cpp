#include "partita/strategy/hogbatch/worker_forecast.hpp"

#include <algorithm>
#include <limits>

namespace partita {

namespace {

MixTask mixTask(const CostTask& task, const std::string& deck, const Cluster& cluster) {
  MixTask known;
  known.deck = deck;
  known.parameters = task.program->parameters();
  known.examples = static_cast<std::int64_t>(task.samples);
  const CostModel model(task, cluster, CostMode::exact);
  for (const LayerTime& time : model.times()) {
    known.seconds_per_example += time.perSample();
    known.seconds_per_update += time.update;
  }
  const auto value_bytes = static_cast<double>(task.program->device().real_bytes);
  for (const LayerPlan& layer : task.program->layers())
    known.model_bytes += value_bytes * static_cast<double>(layer.storedValues());
  return known;
}

/// What the workers have done in a run over a training set of this many examples.
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

MeasuredUse errorsOf(const MeasuredUse& predicted, const MeasuredUse& measured) {
  const auto error = [](double expected, double found) {
    return found > 0.0 ? expected / found - 1.0 : std::numeric_limits<double>::quiet_NaN();
  };
  MeasuredUse errors;
  errors.epoch_seconds = error(predicted.epoch_seconds, measured.epoch_seconds);
  errors.examples_per_second = error(predicted.examples_per_second, measured.examples_per_second);
  errors.staleness_mean = error(predicted.staleness_mean, measured.staleness_mean);
  for (std::size_t i = 0; i < std::min(predicted.shares.size(), measured.shares.size()); ++i)
    errors.shares.push_back(predicted.shares[i] - measured.shares[i]);
  return errors;
}

JsonObject wayObject(const WorkerMix& mix, const UseForecast& way, double own_progress) {
  JsonObject object;
  object.add("examples_per_second", way.examples_per_second);
  object.add("progress", way.progress_per_second / own_progress);
  object.add("batches", way.batches);
  object.add("changes", deckChangesFor(mix, way));
  object.add("rate_change", rateChangeFor(mix, way));
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

WorkerForecast::WorkerForecast(const RunConfig& config, const CostTask& task, const std::string& deck,
                               std::int64_t ranks, const Cluster& cluster) {
  const MixTask known = mixTask(task, deck, cluster);
  _mix = workerMix(config, ranks, known, cluster);
  _forecast = forecastOf(_mix, mixWithinBounds(config, ranks, known, cluster));
  _timed = knowsWorkers(ranks, known, cluster);
}

std::vector<std::string> WorkerForecast::lines() const {
  std::vector<std::string> lines = forecastLines(_mix, _forecast);
  if (!_timed)
    lines.insert(lines.begin(), "speeds of workers without a [[worker]] row of this network in the cluster "
                                "file: assumed equal, as the cost model predicts them");
  return lines;
}

JsonObject WorkerForecast::workerObject(std::size_t index, double share) const {
  const Course& course = _forecast.course;
  const WorkerCourse& own = course.workers[index];
  const bool shared = _mix.groups[_mix.workers[index].group].role == WorkerRole::shared;
  JsonObject object;
  object.add("rank", static_cast<std::int64_t>(index) + 1);
  object.add("role", shared ? "shared" : "replica");
  object.add("overhead_s", _mix.workers[index].overhead);
  object.add("solo_examples_per_second", _mix.workers[index].speed);
  object.add("update_share", share);
  object.add("example_share", static_cast<double>(own.examples) / static_cast<double>(course.examples));
  object.add("batch_first", own.batch_first);
  object.add("batch_last", own.batch_last);
  object.add("busy", own.busy / course.seconds);
  object.add("staleness_mean", own.stalenessMean());
  object.add("staleness_max", own.staleness_max);
  return object;
}

JsonObject WorkerForecast::json() const {
  const MeasuredUse use = expectedUse(_forecast);
  std::vector<JsonObject> workers;
  for (std::size_t i = 0; i < _mix.workers.size(); ++i) workers.push_back(workerObject(i, use.shares[i]));
  JsonObject ways, object;
  for (const WorkerUse way : {WorkerUse::asynchronous, WorkerUse::synchronous, WorkerUse::alone})
    ways.add(nameOf(way), wayObject(_mix, _forecast.of(way), _forecast.course.progressPerSecond()));
  object.add("strategy", "hogbatch");
  object.add("ranks", static_cast<std::int64_t>(workers.size()) + 1);
  object.add("timed", _timed);
  object.add("epoch_s", use.epoch_seconds);
  object.add("examples_per_second", use.examples_per_second);
  object.add("staleness_mean", use.staleness_mean);
  object.add("staleness_max", _forecast.course.stalenessMax());
  object.add("price_of_balance", _forecast.price_of_balance);
  object.add("workers", workers);
  object.add("ways", ways);
  object.add("better", nameOf(_forecast.best));
  object.add("gain", _forecast.gain);
  return object;
}

ForecastCheck WorkerForecast::compare(const WorkersSnapshot& done, std::int64_t examples) const {
  const MeasuredUse predicted = expectedUse(_forecast), measured = measuredUse(done, examples);
  return {comparisonLine(predicted, measured),
          {{"predicted", useObject(predicted)},
           {"measured", useObject(measured)},
           {"prediction_error", useObject(errorsOf(predicted, measured))}}};
}

} // namespace partita
