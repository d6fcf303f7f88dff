#pragma once

#include "partita/data/dataset.hpp"
#include "partita/io/json.hpp"
#include "partita/plan/cost/cost_model.hpp"
#include "partita/plan/grid_plan.hpp"
#include "partita/plan/hogbatch/deck_mix.hpp"
#include "partita/plan/hogbatch/forecast.hpp"
#include "partita/strategy/observer.hpp"

#include <optional>
#include <string>
#include <vector>

namespace partita {

/// The forecast for workers that train at their own pace.
struct WorkerForecast {
  WorkerMix mix;
  HogbatchForecast forecast;
  bool timed = false; ///< does the cluster have a row for each worker? Otherwise all count as equally fast
};

/// The forecast for a run on this many ranks; `deck` is the name of its file without folder and suffix, "" if
/// it is unknown.
WorkerForecast forecastWorkers(const RunConfig& config, const CostTask& task, const std::string& deck,
                               std::int64_t ranks, const Cluster& cluster);
/// The forecast with `run/cluster`; empty if the deck names no cluster, or if its ranks are in step. Throws
/// UserError if the description cannot be read.
std::optional<WorkerForecast> predictedWorkers(const RunConfig& config, const DataSets& sets,
                                               const GridPlan& grid);

/// What the workers have done in a run over a training set of this many examples.
MeasuredUse measuredUse(const WorkersSnapshot& snapshot, std::int64_t examples);

/// The printed lines: one if the speeds are assumed, and those of `forecastLines`.
std::vector<std::string> linesOf(const WorkerForecast& forecast);
/// {epoch_s, examples_per_second, staleness_mean, ..., workers: [..], ways: [..], better, gain}.
JsonObject jsonOf(const WorkerForecast& forecast);
/// Adds "predicted", "measured" and "prediction_error" to a summary, each {epoch_s, examples_per_second,
/// update_share, staleness_mean}. Errors are relative, but those of shares are absolute.
void addUses(JsonObject& json, const MeasuredUse& predicted, const MeasuredUse& measured);

} // namespace partita
