#pragma once

#include "partita/comm/grid.hpp"
#include "partita/data/dataset.hpp"
#include "partita/io/json.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/strategy/run_forecast.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace partita {

/// What a training step costs, in the terms of docs/prediction.md.
struct StepCost {
  double step = 0.0;                           ///< seconds
  double compute = 0.0;                        ///< of the rank that computes longest
  std::map<std::string, double> communication; ///< seconds that this rank waits, by kind
  double memory = 0.0;                         ///< bytes of the rank that needs most
  std::vector<std::string> notes{};            ///< on what the cluster file does not say
};

/// The cost that the cost model predicts for a run on the cluster `run/cluster`; empty if the deck names
/// none, or asks for a recovery or joint steps, which the model does not cover. Throws UserError if the
/// description cannot be read. `ranks_on_node`: of the run, on the node that has most; 0: unknown.
std::optional<StepCost> predictedCost(const RunConfig& config, const DataSets& sets,
                                      const Partition& partition, const GridPlan& grid,
                                      std::int64_t ranks_on_node = 0);

/// The same for a run whose ranks are not in step; null if they are, if the deck names no cluster, or on one
/// rank. Throws UserError if the description cannot be read.
std::shared_ptr<const RunForecast> predictedRun(const RunConfig& config, const DataSets& sets,
                                                const GridPlan& grid);

/// Do the steps from `first_step` on cost as much as those of the whole run on average, as predictions do?
/// Stages that train one after another differ, and replicas meet more often in a warm-up.
bool hasMeanSteps(const StrategySection& section, const RunLength& length, std::int64_t first_step);

/// The cost of a step of all stages: `seconds` for `steps` steps of the run, `turns` of which are a step of
/// all stages if these train one after another, and the times that ranks have waited. Collective.
StepCost measuredCost(const Grid& grid, double seconds, std::int64_t steps, int turns);

/// Adds "predicted", "measured" and "prediction_error" to a summary, each {step_s, compute_s, communication,
/// memory_bytes} with the kinds of communication of either. Errors are relative; null: nothing was measured.
void addCosts(JsonObject& json, StepCost predicted, StepCost measured);
/// "predicted 1.30 ms per step: ...".
std::string costLine(const StepCost& predicted);
/// "predicted 1.30 ms per step, measured 1.25 ms (+4.0 %): ...".
std::string costLine(const StepCost& predicted, const StepCost& measured);

} // namespace partita
