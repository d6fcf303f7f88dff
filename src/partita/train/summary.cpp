#include "partita/train/summary.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/names.hpp"
#include "partita/core/log.hpp"
#include "partita/core/memory.hpp"
#include "partita/io/json.hpp"
#include "partita/io/output_file.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <cmath>
#include <cstdio>

namespace partita {

namespace {

JsonObject gridObject(const Grid& grid) {
  JsonObject object;
  object.add("stages", std::int64_t{grid.plan().stages});
  object.add("replicas", std::int64_t{grid.plan().replicas});
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
    const auto index = static_cast<std::size_t>(stage.index);
    const StageMemory memory =
        stageMemory(deck, partition, grid.plan(), stage.index, deviceKind(grid.paths()));
    JsonObject& object = stages[index];
    object.add("rank", std::int64_t{grid.plan().groupOf(stage.index)});
    object.add("layers", std::vector<std::int64_t>{stage.firstLayer(), stage.lastLayer()});
    object.add("parameters", stage.parameters());
    object.add("flops_per_sample", partition.local_flops[index]);
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

/// What all ranks together have sent and held.
struct Counters {
  explicit Counters(const Grid& grid)
      : between_stages(grid.world().total(grid.traffic.between_stages)),
        between_replicas(grid.world().total(grid.traffic.between_replicas)),
        evaluation(grid.world().total(grid.traffic.evaluation)),
        device(grid.world().gather(AllocationCounter::peakBytes())),
        resident(grid.world().gather(peakResidentBytes())) {}

  std::int64_t between_stages, between_replicas, evaluation;
  std::vector<std::int64_t> device, resident; // by rank
};

double samplesPerSecond(const Summary& summary, const RunConfig& deck) {
  const auto steps = static_cast<double>(summary.length.steps + summary.length.recovery_steps);
  return steps * static_cast<double>(deck.training.batch) / summary.times.training;
}

/// The perplexity of a network that predicts tokens; 0 for others.
double perplexityOf(const RunConfig& deck, const Partition& partition, const Evaluation& evaluation) {
  const bool tokens = partition.stages.back().positions > 1;
  return tokens && deck.training.loss == LossKind::cross_entropy ? std::exp(evaluation.loss.back()) : 0.0;
}

std::string textOf(const Summary& summary, const RunConfig& deck, const Partition& partition,
                   const Grid& grid, const Counters& counters) {
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
  if (const double perplexity = perplexityOf(deck, partition, summary.evaluation); perplexity > 0.0)
    json.add("test_perplexity", perplexity);
  json.add("stage_accuracy", summary.evaluation.accuracy);
  json.add("train_seconds", summary.times.training);
  json.add("evaluation_seconds", summary.times.evaluation);
  json.add("samples_per_second", samplesPerSecond(summary, deck));
  json.add("parameters", countAll(partition));
  json.add("parameters_hash", summary.parameters_hash);
  json.add("grid", gridObject(grid));
  json.add("allowed_speedup", partition.allowedSpeedup());
  json.add("partition", partitionList(deck, partition, grid));
  json.add("bytes_between_stages", counters.between_stages);
  json.add("bytes_between_replicas", counters.between_replicas);
  json.add("bytes_evaluation", counters.evaluation);
  json.add("peak_device_bytes", counters.device);
  json.add("peak_rss_bytes", counters.resident);
  json.add("warnings", Log::warnings());
  json.add("provenance", provenanceObject(summary.provenance));
  return json.text() + "\n";
}

void show(const Summary& summary, const RunConfig& deck, const Partition& partition,
          const Counters& counters) {
  char line[256];
  std::string perplexity;
  if (const double value = perplexityOf(deck, partition, summary.evaluation); value > 0.0) {
    std::snprintf(line, sizeof line, ", perplexity %.4f", value);
    perplexity = line;
  }
  std::snprintf(
      line, sizeof line,
      "test accuracy %.2f %%%s, %s samples/s, %.2f s training, %s between stages, %s between replicas",
      100.0 * summary.evaluation.accuracy.back(), perplexity.c_str(),
      formatCount(samplesPerSecond(summary, deck)).c_str(), summary.times.training,
      formatBytes(static_cast<double>(counters.between_stages)).c_str(),
      formatBytes(static_cast<double>(counters.between_replicas)).c_str());
  Log::info(line);
  Log::info("parameters_hash " + summary.parameters_hash);
}

} // namespace

void finishSummary(const Summary& summary, const RunConfig& deck, const Partition& partition,
                   const Grid& grid, const std::string& path) {
  const Counters counters(grid);
  show(summary, deck, partition, counters);
  collectively(grid.world(), [&] {
    if (path.empty() || grid.world().rank() != 0) return;
    OutputFile file(path);
    file.write(textOf(summary, deck, partition, grid, counters));
    file.commit();
  });
}

} // namespace partita
