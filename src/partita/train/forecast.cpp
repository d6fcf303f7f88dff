#include "partita/train/forecast.hpp"

#include "partita/comm/wait_times.hpp"
#include "partita/config/text.hpp"
#include "partita/core/log.hpp"
#include "partita/core/memory.hpp"
#include "partita/plan/cost/cluster_file.hpp"
#include "partita/plan/cost/cost_model.hpp"
#include "partita/plan/cost/prediction_notes.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/strategy.hpp"

#include <algorithm>
#include <limits>

namespace partita {

namespace {

constexpr const char* other_waits = "other";

/// The kinds of exchange that ranks wait for, by WaitedFor::what.
std::string kindOfWait(const std::string& what) {
  if (what == waits::activations || what == waits::activation_gradients) return nameOf(ExchangeKind::stage);
  if (what == waits::batch_statistics) return nameOf(ExchangeKind::norm);
  if (what == waits::gradients) return nameOf(ExchangeKind::gradients);
  if (what == waits::parameters) return nameOf(ExchangeKind::parameters);
  if (what == waits::part_values || what == waits::class_sums) return nameOf(ExchangeKind::all_gather);
  if (what == waits::range_sums) return nameOf(ExchangeKind::reduce_scatter);
  if (what == waits::part_sums) return nameOf(ExchangeKind::all_reduce);
  if (what == waits::halos) return nameOf(ExchangeKind::halo);
  return other_waits;
}

/// Relative error of a prediction; NaN if nothing was measured.
double errorOf(double predicted, double measured) {
  return measured > 0.0 ? predicted / measured - 1.0 : std::numeric_limits<double>::quiet_NaN();
}

double at(const std::map<std::string, double>& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? 0.0 : found->second;
}

std::vector<std::string> notesOn(const CostTask& task, const Cluster& cluster, std::int64_t ranks,
                                 std::int64_t ranks_on_node) {
  const auto node = noteOnNode(cluster, ranks_on_node);
  std::vector<std::string> notes;
  for (const auto& note : {noteOnProducts(task, cluster), node ? node : noteOnLinks(cluster, ranks)})
    if (note) notes.push_back(*note);
  return notes;
}

} // namespace

std::optional<StepCost> predictedCost(const RunConfig& config, const DataSets& sets,
                                      const Partition& partition, const GridPlan& grid,
                                      std::int64_t ranks_on_node) {
  if (config.run.cluster.empty() || planOf(config.strategy).atOwnPace()) return {};
  const Cluster cluster = loadCluster(config.run.cluster);
  if (!planOf(config.strategy).otherSteps(config.strategy).empty()) return {};
  CostTask task = costTask(config, sets.shape, sets.classes, sets.train.size(), {sizeof(Real)});
  task.timing = timingOf(task, cluster);
  const CostModel model(task, cluster, CostMode::exact);
  const Prediction prediction =
      model.predict(ProgramRun{config, partition, grid, model.task().program->device()});
  StepCost cost;
  cost.step = prediction.stepSeconds();
  cost.compute = prediction.busySeconds();
  for (const Exchange& exchange : prediction.exchanges)
    cost.communication[nameOf(exchange.kind)] = exchange.seconds;
  if (const double idle = prediction.idleSeconds(); idle > 0.0)
    cost.communication[nameOf(ExchangeKind::stage)] += idle;
  cost.memory = prediction.memory;
  cost.notes = notesOn(task, cluster, grid.size(), ranks_on_node);
  return cost;
}

std::shared_ptr<const RunForecast> predictedRun(const RunConfig& config, const DataSets& sets,
                                                const GridPlan& grid) {
  if (config.run.cluster.empty() || !planOf(config.strategy).atOwnPace() || grid.ranks < 2) return nullptr;
  const Cluster cluster = loadCluster(config.run.cluster);
  CostTask task = costTask(config, sets.shape, sets.classes, sets.train.size(), {sizeof(Real)});
  task.timing = timingOf(task, cluster);
  return rulesOf(config.strategy).forecast(config, task, "", grid.ranks, cluster);
}

bool hasMeanSteps(const StrategySection& section, const RunLength& length, std::int64_t first_step) {
  return first_step == 0 || (length.turns == 1 && planOf(section).meetings(section).warm_up == 0);
}

StepCost measuredCost(const Grid& grid, double seconds, std::int64_t steps, int turns) {
  const double per_step = turns / static_cast<double>(steps);
  std::map<std::string, double> own{{other_waits, 0.0}};
  for (const std::string& kind : namesOf<ExchangeKind>()) own[kind] = 0.0;
  double waited = 0.0;
  for (const auto& [what, time] : waitTimes()) {
    if (what == waits::evaluated_activations) continue; // not in `seconds`
    own[kindOfWait(what)] += time * per_step;
    waited += time * per_step;
  }
  StepCost cost;
  cost.step = seconds * per_step;
  cost.memory = static_cast<double>(grid.world().maximum(AllocationCounter::peakBytes()));
  // The rank that waits least computes longest.
  const double least = -grid.world().maximum(-waited);
  const int busiest = static_cast<int>(
      grid.world().maximum(std::int64_t{waited == least ? grid.world().rank() : std::int64_t{-1}}));
  for (const auto& [kind, time] : own) {
    const double shared = grid.world().maximum(grid.world().rank() == busiest ? time : 0.0);
    if (shared > 0.0) cost.communication[kind] = shared;
  }
  cost.compute = std::max(0.0, cost.step - least);
  return cost;
}

namespace {

/// Both list all kinds that either has.
void shareKinds(StepCost& a, StepCost& b) {
  for (const auto& [kind, seconds] : a.communication) b.communication.emplace(kind, 0.0);
  for (const auto& [kind, seconds] : b.communication) a.communication.emplace(kind, 0.0);
}

StepCost errorsOf(const StepCost& predicted, const StepCost& measured) {
  StepCost errors;
  errors.step = errorOf(predicted.step, measured.step);
  errors.compute = errorOf(predicted.compute, measured.compute);
  errors.memory = errorOf(predicted.memory, measured.memory);
  for (const auto& [kind, seconds] : measured.communication)
    errors.communication[kind] = errorOf(at(predicted.communication, kind), seconds);
  return errors;
}

JsonObject jsonOf(const StepCost& cost) {
  JsonObject communication, object;
  for (const auto& [kind, seconds] : cost.communication) communication.add(kind, seconds);
  object.add("step_s", cost.step);
  object.add("compute_s", cost.compute);
  object.add("communication", communication);
  object.add("memory_bytes", cost.memory);
  return object;
}

double sumOf(const std::map<std::string, double>& values) {
  double sum = 0.0;
  for (const auto& [kind, seconds] : values) sum += seconds;
  return sum;
}

} // namespace

void addCosts(JsonObject& json, StepCost predicted, StepCost measured) {
  shareKinds(predicted, measured);
  json.add("predicted", jsonOf(predicted));
  json.add("measured", jsonOf(measured));
  json.add("prediction_error", jsonOf(errorsOf(predicted, measured)));
}

std::string costLine(const StepCost& predicted) {
  return formatted("predicted %.4g ms per step: computing %.4g ms, waiting %.4g ms, memory %s",
                   1e3 * predicted.step, 1e3 * predicted.compute, 1e3 * sumOf(predicted.communication),
                   formatBytes(predicted.memory).c_str());
}

std::string costLine(const StepCost& predicted, const StepCost& measured) {
  const StepCost errors = errorsOf(predicted, measured);
  return formatted(
      "predicted %.4g ms per step, measured %.4g ms (%+.1f %%): computing %.4g and %.4g ms, waiting "
      "%.4g and %.4g ms, memory %s and %s",
      1e3 * predicted.step, 1e3 * measured.step, 100.0 * errors.step, 1e3 * predicted.compute,
      1e3 * measured.compute, 1e3 * sumOf(predicted.communication), 1e3 * sumOf(measured.communication),
      formatBytes(predicted.memory).c_str(), formatBytes(measured.memory).c_str());
}

} // namespace partita
