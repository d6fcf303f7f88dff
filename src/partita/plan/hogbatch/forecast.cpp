#include "partita/plan/hogbatch/forecast.hpp"

#include <algorithm>

namespace partita {

const UseForecast& HogbatchForecast::of(WorkerUse use) const {
  if (use == WorkerUse::synchronous) return synchronous;
  return use == WorkerUse::alone ? alone : asynchronous;
}

namespace {

/// The run itself if no other batches are clearly better.
UseForecast betterOf(const UseForecast& own, const UseForecast& other) {
  constexpr double clearly = 1.001;
  return other.progress_per_second > clearly * own.progress_per_second ? other : own;
}

double priceOfBalance(const WorkerMix& mix, const Course& course) {
  WorkerMix fixed = mix;
  fixed.rules.rule = WorkerRule::fixed;
  return settledCourse(fixed).examplesPerSecond() / course.examplesPerSecond();
}

} // namespace

HogbatchForecast forecastOf(const WorkerMix& mix, const WorkerMix& within_bounds) {
  constexpr double worth_it = 1.05;
  HogbatchForecast forecast;
  forecast.course = settledCourse(mix);
  forecast.epoch_seconds = static_cast<double>(mix.examples) / forecast.course.examplesPerSecond();
  const bool in_step = mix.rules.rule == WorkerRule::synchronous;
  if (!in_step) forecast.price_of_balance = priceOfBalance(mix, forecast.course);
  forecast.asynchronous = forecastAsynchronous(within_bounds);
  forecast.synchronous = forecastInStep(within_bounds);
  forecast.alone = forecastBestAlone(within_bounds);
  forecast.best = in_step ? WorkerUse::synchronous : WorkerUse::asynchronous;
  UseForecast own = useOf(forecast.course);
  own.own = true;
  UseForecast& way = in_step ? forecast.synchronous : forecast.asynchronous;
  way = betterOf(own, way);
  for (const WorkerUse use : {WorkerUse::alone, WorkerUse::synchronous, WorkerUse::asynchronous}) {
    const double gain = forecast.of(use).progress_per_second / own.progress_per_second;
    if (gain < worth_it || gain <= forecast.gain) continue;
    forecast.best = use;
    forecast.gain = gain;
  }
  return forecast;
}

MeasuredUse expectedUse(const HogbatchForecast& forecast) {
  MeasuredUse use;
  double updates = 0.0;
  for (const WorkerCourse& worker : forecast.course.workers) updates += static_cast<double>(worker.updates);
  for (const WorkerCourse& worker : forecast.course.workers)
    use.shares.push_back(static_cast<double>(worker.updates) / std::max(1.0, updates));
  use.examples_per_second = forecast.course.examplesPerSecond();
  use.staleness_mean = forecast.course.stalenessMean();
  use.epoch_seconds = forecast.epoch_seconds;
  return use;
}

} // namespace partita
