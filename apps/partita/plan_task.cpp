#include "plan_task.hpp"

#include "partita/config/deck.hpp"
#include "partita/config/text.hpp"
#include "partita/core/log.hpp"
#include "partita/data/load_data.hpp"
#include "partita/plan/cost/cluster_file.hpp"
#include "partita/plan/cost/prediction_notes.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/train/check_plans.hpp"
#include "partita/train/run_files.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

namespace partita {

Cluster clusterOf(const std::string& path) {
  return path.empty() ? Cluster{} : loadCluster(path);
}

std::string deckName(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

std::vector<std::string> filesRead(const std::string& deck, const std::vector<std::string>& overrides,
                                   const std::string& cluster) {
  const RunConfig config = loadDeck(deck, overrides);
  std::vector<std::string> files = dataFiles(config.data);
  for (const std::string& file : filesOfRunWith(deck)) files.push_back(file);
  for (const std::string& file : {deck, cluster, config.run.cluster})
    if (!file.empty()) files.push_back(file);
  return files;
}

PlanTask planTask(const std::string& deck, const std::vector<std::string>& overrides,
                  const Cluster& cluster) {
  const RunConfig config = loadDeck(deck, overrides);
  PlanTask plan{loadData(config.data, config.run.seed, Need::labels_only), {}};
  plan.task = costTask(config, plan.sets.shape, plan.sets.classes, plan.sets.train.size(), {sizeof(Real)});
  checkLabels(plan.task.program->output(), plan.sets);
  plan.task.timing = timingOf(plan.task, cluster, deckName(deck));
  return plan;
}

void requireWholeBatch(const PlanTask& plan) {
  planRunLength(plan.task.program->deck(), static_cast<std::int64_t>(plan.sets.train.size()));
}

void warnWithoutWholeBatch(double batch, double samples) {
  if (batch <= samples) return;
  Log::warning("training/batch: a batch of " + std::to_string(std::llround(batch)) +
               " samples is larger than the training set of " + std::to_string(std::llround(samples)) +
               ": train would refuse it; here it counts as an epoch");
}

void warnOfAssumptions(const CostTask& task, const Cluster& cluster, std::int64_t ranks) {
  for (const auto& note : {noteOnProducts(task, cluster), noteOnLinks(cluster, ranks)})
    if (note) Log::warning(*note);
}

void noteSmallPasses(const CostTask& task, std::int64_t pieces) {
  const bool depends = std::any_of(task.layers.begin(), task.layers.end(),
                                   [](const LayerCost& layer) { return layer.of_pass; });
  if (depends && pieces > 1)
    Log::info("  batch-norm sees 1/" + std::to_string(pieces) +
              " of a batch at a time, which may change the accuracy");
}

void showCommand(std::int64_t ranks, const std::string& deck) {
  const std::string harmless = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./+,:@%=";
  std::string word = deck;
  if (word.find_first_not_of(harmless) != std::string::npos) {
    word = "'";
    for (const char c : deck) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    word += "'";
  }
  Log::info("mpirun -n " + std::to_string(ranks) + " partita train " + word);
}

JsonObject jsonOf(const Prediction& prediction) {
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  const auto time = [&](double seconds) { return prediction.hasTimes() ? seconds : unknown; };
  JsonObject communication, hidden, messages, bytes, object;
  for (const Exchange& exchange : prediction.exchanges) {
    communication.add(nameOf(exchange.kind), prediction.steps * exchange.seconds);
    hidden.add(nameOf(exchange.kind), prediction.steps * exchange.hidden);
    messages.add(nameOf(exchange.kind), exchange.messages);
    bytes.add(nameOf(exchange.kind), exchange.bytes);
  }
  object.add("strategy", nameOf(prediction.strategy));
  object.add("split", splitName(prediction.split));
  object.add("ranks", prediction.ranks);
  object.add("stages", prediction.grid.stages);
  object.add("replicas", prediction.grid.replicas);
  object.add("parts", prediction.grid.parts);
  object.add("microbatches", prediction.microbatches);
  object.add("batch", prediction.batch);
  object.add("feasible", prediction.feasible());
  object.add("reason", nameOf(prediction.obstacle));
  object.add("detail", prediction.detail);
  object.add("step_s", time(prediction.stepSeconds()));
  object.add("epoch_s", time(prediction.epochSeconds()));
  object.add("epoch_compute_s", time(prediction.epoch_compute));
  object.add("epoch_forward_s", time(prediction.steps * prediction.busy.forward));
  object.add("epoch_backward_s", time(prediction.steps * prediction.busy.backward));
  object.add("epoch_update_s", time(prediction.steps * prediction.busy.update));
  object.add("epoch_communication_s", time(prediction.epochCommunication()));
  object.add("communication", communication);
  object.add("hidden", hidden);
  object.add("step_messages", messages);
  object.add("step_bytes", bytes);
  object.add("memory_bytes", time(prediction.memory));
  object.add("node_hours", time(prediction.nodeHours()));
  object.add("limiter", prediction.limiter());
  return object;
}

std::string timeText(double seconds) {
  constexpr double minutes = 600.0;
  if (seconds >= minutes) return formatSeconds(seconds);
  const char* const unit = seconds >= 1.0 ? "s" : seconds >= 1e-3 ? "ms" : "us";
  const double scaled = seconds * (seconds >= 1.0 ? 1.0 : seconds >= 1e-3 ? 1e3 : 1e6);
  return formatted(scaled < 10.0 ? "%.2f %s" : scaled < 100.0 ? "%.1f %s" : "%.0f %s", scaled, unit);
}

std::string gridText(const RankGrid& grid) {
  return joined(std::vector<std::int64_t>{grid.stages, grid.replicas, grid.parts}, " x ");
}

} // namespace partita
