#include "partita/train/results.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/names.hpp"
#include "partita/config/text.hpp"
#include "partita/core/log.hpp"
#include "partita/core/memory.hpp"
#include "partita/io/json.hpp"
#include "partita/io/output_file.hpp"
#include "partita/plan/run_flops.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/train/write_parameters.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace partita {

namespace {

JsonObject gridObject(const Grid& grid) {
  JsonObject object;
  object.add("stages", std::int64_t{grid.plan().stages});
  object.add("replicas", std::int64_t{grid.plan().replicas});
  if (grid.plan().parts > 1) object.add("parts", std::int64_t{grid.plan().parts});
  object.add("ranks", std::int64_t{grid.plan().ranks});
  return object;
}

JsonObject provenanceObject(const Provenance& provenance) {
  JsonObject object;
  for (const auto& [name, value] : provenance) object.add(name, value);
  return object;
}

/// The stages as planned: rank (within a replica), layers and cost; bytes in the memory of that rank's
/// device.
std::vector<JsonObject> partitionList(const RunConfig& deck, const Partition& partition, const Grid& grid) {
  std::vector<JsonObject> stages(partition.stages.size());
  for (const StagePlan& stage : partition.stages) {
    const std::size_t index = stage.index;
    const StageMemory memory =
        stageMemory(deck, partition, grid.plan(), stage.index, deviceKind(grid.paths()));
    JsonObject& object = stages[index];
    object.add("rank", std::int64_t{grid.plan().rankAt(grid.plan().groupOf(stage.index), 0)});
    object.add("layers", std::vector<std::int64_t>{stage.firstLayer(), stage.lastLayer()});
    object.add("parameters", stage.parameters());
    object.add("head_parameters", countParameters(stage.decoder) + countParameters(stage.head));
    object.add("flops_per_sample", partition.local[index].flops);
    object.add("parameter_bytes", memory.parameters);
    object.add("gradient_bytes", memory.gradients);
    object.add("optimiser_bytes", memory.optimiser);
    object.add("activation_bytes", memory.activations);
    object.add("buffer_bytes", memory.buffers + memory.evaluation);
    object.add("offloaded_bytes", memory.offloaded);
  }
  return stages;
}

std::int64_t countAll(const Partition& partition) {
  std::int64_t sum = 0;
  for (const StagePlan& stage : partition.stages) sum += stage.parameters();
  return sum;
}

/// What a training has reached of the rate at which its ranks multiply matrices.
struct Utilisation {
  double hardware = 0.0, model = 0.0; ///< see RunFlops
  std::string reference;              ///< the rate
};

/// What all ranks together have sent, stored and computed.
struct Counters {
  explicit Counters(const Grid& grid)
      : device(grid.world().gather(AllocationCounter::peakBytes())),
        resident(grid.world().gather(peakResidentBytes())) {
    for (const TrafficCounter& counter : traffic_counters)
      sent.*counter.value = grid.world().total(grid.traffic.*counter.value);
  }

  Traffic sent;
  std::vector<std::int64_t> device, resident; // by rank
  std::optional<Utilisation> utilisation;
};

double samplesPerSecond(const Summary& summary, const RunConfig& deck) {
  return summary.length.samples(deck.training.batch) / summary.times.training;
}

std::string deviceOf(const RankPlace& place) {
  return place.device.name.empty() ? "host" : place.device.name;
}

/// The ranks of an asynchronous run and what they have done; `places`: of all remaining ranks, in the order
/// of the job.
std::vector<JsonObject> workerList(const WorkerHistory& history, const std::vector<RankPlace>& places) {
  const std::vector<double> busy = history.busy();
  std::vector<JsonObject> list(1);
  list[0].add("rank", std::int64_t{0});
  list[0].add("role", "coordinator");
  list[0].add("device", deviceOf(places.at(0)));
  list[0].add("busy", history.latest().coordinator_busy);
  std::size_t place = 0;
  for (std::size_t i = 0; i < busy.size(); ++i) {
    const WorkerCounts& worker = history.latest().workers[i];
    JsonObject object;
    object.add("rank", worker.rank);
    object.add("role", worker.shared ? "shared" : "replica");
    if (!worker.isLost()) object.add("device", deviceOf(places.at(++place)));
    object.add("updates", worker.updates);
    object.add("examples", worker.examples);
    object.add("batches", worker.batches);
    object.add("batch_first", worker.batch_first);
    object.add("batch_last", worker.batch_last);
    object.add("busy", busy[i]);
    object.add("staleness_mean", worker.stalenessMean());
    object.add("staleness_max", worker.staleness_max);
    object.add("dropped", worker.dropped);
    object.add("lost_updates", worker.overwritten);
    object.add("given_away", worker.given_away);
    if (worker.isLost()) object.add("lost_step", worker.lost_step);
    if (worker.isLost()) object.add("lost_seconds", worker.lost_seconds);
    list.push_back(object);
  }
  return list;
}

void addWorkers(JsonObject& json, const WorkerHistory& history, const std::vector<RankPlace>& places) {
  if (!history.any()) return;
  json.add("workers", workerList(history, places));
  json.add("update_share", history.shares());
  std::vector<JsonObject> reached;
  for (const LossReached& time : history.latest().reached) {
    JsonObject object;
    object.add("loss", time.loss);
    object.add("seconds", time.seconds);
    reached.push_back(object);
  }
  json.add("time_to_loss", reached);
}

/// On rank 0, whose rate stands for those of all ranks; none if these compute on different devices, or if
/// rank 0 does not train.
std::optional<Utilisation> utilisationOf(const Summary& summary, const RunConfig& deck,
                                         const Partition& partition, const Grid& grid) {
  const std::vector<RankPlace>& places = summary.places;
  const bool alike = std::all_of(places.begin(), places.end(), [&](const RankPlace& place) {
    return deviceOf(place) == deviceOf(places.front()) &&
           place.device.threads == places.front().device.threads;
  });
  const std::map<Precision, double>& rates = summary.product_rates;
  const auto own = rates.find(deck.run.precision);
  if (rates.empty() || !alike || !grid.ownsStages()) return {};
  const bool direct = own != rates.end();
  const double rate = direct ? own->second : rates.at(Precision::single),
               reachable = rate * static_cast<double>(places.size()) * summary.times.training;
  const RunFlops flops = runFlops(deck, partition, summary.length);
  const std::string ranks = places.size() == 1 ? "" : std::to_string(places.size()) + " x ",
                    kind = direct && deck.run.precision != Precision::single
                               ? nameOf(deck.run.precision) + " "
                               : "";
  return Utilisation{flops.hardware / reachable, flops.model / reachable,
                     ranks + formatFlops(rate) + ", " + kind + "gemm of rank 0"};
}

std::string textOf(const Summary& summary, const RunConfig& deck, const Partition& partition,
                   const Grid& grid, const Counters& counters, const WorkerHistory& workers,
                   const std::optional<ForecastCheck>& check) {
  JsonObject json;
  json.add("strategy", nameOf(deck.strategy.kind));
  for (const auto& [key, value] : planOf(deck.strategy).facts(deck.strategy)) json.add(key, value);
  json.add("seed", deck.run.seed);
  json.add("epochs",
           static_cast<double>(summary.length.steps) / static_cast<double>(summary.length.per_epoch));
  json.add("steps", summary.length.steps);
  json.add("recovery_epochs", summary.length.recovery_steps / summary.length.per_epoch);
  json.add("test_accuracy", summary.evaluation.accuracy.back());
  json.add("test_loss", summary.evaluation.loss.back());
  if (const double perplexity = perplexityOf(deck, partition, summary.evaluation.loss.back());
      perplexity > 0.0)
    json.add("test_perplexity", perplexity);
  json.add("stage_accuracy", summary.evaluation.accuracy);
  if (!summary.evaluation.alone.empty()) json.add("stage_alone", summary.evaluation.alone);
  json.add("train_seconds", summary.times.training);
  json.add("evaluation_seconds", summary.times.evaluation);
  json.add("samples_per_second", samplesPerSecond(summary, deck));
  if (const auto& used = counters.utilisation) {
    json.add("hardware_flops_utilisation", used->hardware);
    json.add("model_flops_utilisation", used->model);
    json.add("flops_reference", used->reference);
  }
  json.add("parameters", countAll(partition));
  json.add("parameters_hash", summary.parameters_hash);
  json.add("grid", gridObject(grid));
  json.add("allowed_speedup", planOf(deck.strategy).allowedSpeedup(deck, partition, grid.plan()));
  json.add("partition", partitionList(deck, partition, grid));
  for (const TrafficCounter& counter : traffic_counters) json.add(counter.name, counters.sent.*counter.value);
  json.add("peak_device_bytes", counters.device);
  json.add("peak_rss_bytes", counters.resident);
  addWorkers(json, workers, summary.places);
  if (check)
    for (const auto& [key, object] : check->entries) json.add(key, object);
  if (summary.predicted && summary.measured) addCosts(json, *summary.predicted, *summary.measured);
  json.add("warnings", Log::warnings());
  json.add("provenance", provenanceObject(summary.provenance));
  return json.text() + "\n";
}

void show(const Summary& summary, const RunConfig& deck, const Partition& partition,
          const Counters& counters) {
  std::string perplexity;
  if (const double value = perplexityOf(deck, partition, summary.evaluation.loss.back()); value > 0.0)
    perplexity = formatted(", perplexity %.4f", value);
  const std::string parts =
      counters.sent.part_messages == 0
          ? ""
          : ", " + formatBytes(static_cast<double>(counters.sent.between_parts)) + " between parts";
  Log::info(formatted(
      "test accuracy %.2f %%%s%s, %s samples/s, %.2f s training, %s between stages, %s between replicas%s",
      100.0 * summary.evaluation.accuracy.back(),
      deck.data.testsOnValidationSet() ? " on the validation set" : "", perplexity.c_str(),
      formatCount(samplesPerSecond(summary, deck)).c_str(), summary.times.training,
      formatBytes(static_cast<double>(counters.sent.between_stages)).c_str(),
      formatBytes(static_cast<double>(counters.sent.between_replicas)).c_str(), parts.c_str()));
  Log::info("parameters_hash " + summary.parameters_hash);
  if (const auto& used = counters.utilisation) {
    Log::info(formatted("FLOPs: %.1f %% of %s; without recomputation %.1f %%", 100.0 * used->hardware,
                        used->reference.c_str(), 100.0 * used->model));
  }
  if (summary.predicted && summary.measured) Log::info(costLine(*summary.predicted, *summary.measured));
}

/// The forecast next to what workers have done: on rank 0, if there is a forecast.
std::optional<ForecastCheck> checkForecast(const Summary& summary, const Setup& setup,
                                           const WorkerHistory& workers) {
  if (summary.forecast == nullptr || !workers.any() || workers.anyLost())
    return {}; // it is that of other workers
  return summary.forecast->compare(workers.latest(),
                                   static_cast<std::int64_t>(setup.plans.sets.train.size()));
}

/// Gathers the counters of all ranks, prints the result and writes the last files of the run. `summary.json`
/// comes last: without it, the run was killed, or rows of its history are lost. Collective; throws
/// AgreedError if a file cannot be written.
void finishSummary(const Summary& summary, const Setup& setup, Monitor& monitor,
                   const RunDirectory& directory) {
  const Partition& partition = setup.plans.partition;
  Counters counters(setup.grid);
  counters.utilisation = utilisationOf(summary, setup.config, partition, setup.grid);
  const std::optional<ForecastCheck> check = checkForecast(summary, setup, monitor.workers());
  show(summary, setup.config, partition, counters);
  if (check) Log::info(check->line);
  collectively(setup.grid.world(), [&] {
    if (!directory.exists() || setup.grid.world().rank() != 0) return;
    directory.makeRoom({"parameters.h5", "summary.json"});
    publishFile(directory.file("parameters.h5.partial"), directory.file("parameters.h5"));
    monitor.synchroniseHistory(); // may warn, and throw; `parameters.h5` is already complete
    const std::string text =
        textOf(summary, setup.config, partition, setup.grid, counters, monitor.workers(), check);
    OutputFile file(directory.file("summary.json"));
    file.write(text);
    file.commit();
  });
}

} // namespace

void writeResults(const Summary& summary, const RunFacts& facts, const Setup& setup, Monitor& monitor,
                  const RunDirectory& directory) {
  if (directory.exists()) writeParameters(directory.file("parameters.h5"), facts, setup);
  finishSummary(summary, setup, monitor, directory);
}

} // namespace partita
