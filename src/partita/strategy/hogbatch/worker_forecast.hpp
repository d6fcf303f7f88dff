#pragma once

#include "partita/plan/cost/cost_model.hpp"
#include "partita/plan/hogbatch/deck_mix.hpp"
#include "partita/plan/hogbatch/forecast.hpp"
#include "partita/strategy/run_forecast.hpp"

namespace partita {

/// The forecast for workers that train at their own pace.
class WorkerForecast final : public RunForecast {
 public:
  /// See `StrategyRules::forecast`.
  WorkerForecast(const RunConfig& config, const CostTask& task, const std::string& deck, std::int64_t ranks,
                 const Cluster& cluster);

  /// One line if the speeds are assumed, and those of `forecastLines`.
  std::vector<std::string> lines() const override;
  /// {epoch_s, examples_per_second, staleness_mean, ..., workers: [..], ways: [..], better, gain}.
  JsonObject json() const override;
  /// "predicted", "measured" and "prediction_error", each {epoch_s, examples_per_second, update_share,
  /// staleness_mean}. Errors are relative, but those of shares are absolute.
  ForecastCheck compare(const WorkersSnapshot& done, std::int64_t examples) const override;

 private:
  JsonObject workerObject(std::size_t index, double share) const;

  WorkerMix _mix;
  HogbatchForecast _forecast;
  bool _timed = false; ///< does the cluster have a row for each worker? Otherwise all count as equally fast
};

} // namespace partita
