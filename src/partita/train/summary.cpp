#include "partita/train/summary.hpp"

#include "partita/config/names.hpp"
#include "partita/core/log.hpp"
#include "partita/core/memory.hpp"
#include "partita/io/json.hpp"
#include "partita/io/output_file.hpp"

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

std::int64_t countAll(const Partition& partition) {
  std::int64_t sum = 0;
  for (const StagePlan& stage : partition.stages) sum += stage.parameters();
  return sum;
}

} // namespace

void finishSummary(const Summary& summary, const RunConfig& deck, const Partition& partition,
                   const Grid& grid, const std::string& path) {
  const Communicator& world = grid.world();
  const std::int64_t between_stages = world.total(grid.traffic.between_stages);
  const std::int64_t between_replicas = world.total(grid.traffic.between_replicas);
  const std::int64_t evaluation_bytes = world.total(grid.traffic.evaluation);
  const auto device = world.gather(AllocationCounter::peakBytes()),
             resident = world.gather(peakResidentBytes());
  if (world.rank() != 0) return;

  const bool sil = deck.strategy.kind == StrategyKind::sil;
  const std::int64_t recovery = sil ? deck.strategy.recovery_epochs : 0;
  const auto steps = static_cast<double>(summary.length.steps + summary.length.recovery_steps);
  const double rate = steps * static_cast<double>(deck.training.batch) / summary.times.training;
  JsonObject json;
  json.add("strategy", nameOf(deck.strategy.kind));
  if (sil) json.add("input", nameOf(deck.strategy.input));
  json.add("seed", deck.run.seed);
  json.add("epochs",
           static_cast<double>(summary.length.steps) / static_cast<double>(summary.length.per_epoch));
  json.add("steps", summary.length.steps);
  json.add("recovery_epochs", recovery);
  json.add("test_accuracy", summary.evaluation.accuracy.back());
  json.add("test_loss", summary.evaluation.loss.back());
  json.add("stage_accuracy", summary.evaluation.accuracy);
  json.add("train_seconds", summary.times.training);
  json.add("evaluation_seconds", summary.times.evaluation);
  json.add("samples_per_second", rate);
  json.add("parameters", countAll(partition));
  json.add("parameters_hash", summary.parameters_hash);
  json.add("grid", gridObject(grid));
  json.add("allowed_speedup", partition.allowedSpeedup());
  json.add("bytes_between_stages", between_stages);
  json.add("bytes_between_replicas", between_replicas);
  json.add("bytes_evaluation", evaluation_bytes);
  json.add("peak_device_bytes", device);
  json.add("peak_rss_bytes", resident);
  json.add("provenance", provenanceObject(summary.provenance));
  if (!path.empty()) {
    OutputFile file(path);
    file.write(json.text() + "\n");
    file.commit();
  }

  char line[256];
  std::snprintf(
      line, sizeof line,
      "test accuracy %.2f %%, %s samples/s, %.2f s training, %s between stages, %s between replicas",
      100.0 * summary.evaluation.accuracy.back(), formatCount(rate).c_str(), summary.times.training,
      formatBytes(static_cast<double>(between_stages)).c_str(),
      formatBytes(static_cast<double>(between_replicas)).c_str());
  Log::info(line);
  Log::info("parameters_hash " + summary.parameters_hash);
}

} // namespace partita
