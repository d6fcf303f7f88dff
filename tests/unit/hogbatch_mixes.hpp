#pragma once

#include "partita/plan/hogbatch/forecast.hpp"

#include <cmath>
#include <numeric>
#include <random>

#include "hogbatch_balance.hpp"

namespace partita::test {

/// A slow replica (1000 examples/s) and one that is `ratio` times faster, with bounds [16, 512].
inline WorkerMix twoReplicas(double ratio, WorkerRule rule) {
  WorkerMix mix;
  mix.rules.rule = rule;
  mix.examples = 100000;
  mix.groups.assign(2, {WorkerRole::replica, 1, 16, 512, 64});
  mix.workers = {{0, 1e-5, 1000.0, "slow"}, {1, 1e-5 / ratio, 1000.0 * ratio, "fast"}};
  return mix;
}

/// 48 workers that share a processor and, as the last worker, a device `ratio` times as fast as all of them
/// together. There are as many examples as in covtype.
inline WorkerMix processorAndDevice(double ratio, WorkerRule rule) {
  WorkerMix mix;
  mix.rules.rule = rule;
  mix.examples = 581012;
  mix.groups = {{WorkerRole::shared, 48, 1, 64, 1}, {WorkerRole::replica, 1, 512, 8192, 8192}};
  mix.workers.assign(48, {0, 2e-3, 20000.0 / 48.0, "core"});
  mix.workers.push_back({1, 4e-3, 20000.0 * ratio, "device"});
  return mix;
}

/// The share of the slower of two workers with common bounds, no overhead, and speeds 1 : r:
/// 1/2 if r <= upper/lower, otherwise 1 / (1 + r lower/upper).
inline double slowShare(double ratio, double lower, double upper) {
  return ratio <= upper / lower ? 0.5 : 1.0 / (1.0 + ratio * lower / upper);
}

/// How much longer an epoch takes with adaptive sizes than with those of the start.
inline double priceOfBalance(const WorkerMix& mix) {
  return fixedBalance(mix).examples_per_second / adaptiveBalance(mix).examples_per_second;
}

/// Numbers drawn for tests, the same on each run.
class Draws {
 public:
  explicit Draws(unsigned seed) : _engine(seed) {}

  std::int64_t whole(std::int64_t lowest, std::int64_t highest) {
    return std::uniform_int_distribution<std::int64_t>(lowest, highest)(_engine);
  }
  /// Equally likely in each power of ten.
  double scaled(double lowest, double highest) {
    return std::exp(std::uniform_real_distribution<double>(std::log(lowest), std::log(highest))(_engine));
  }

 private:
  std::mt19937 _engine;
};

inline double sumOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

inline std::string forecastText(const WorkerMix& mix) {
  std::string text;
  for (const std::string& line : forecastLines(mix, forecastOf(mix, mix))) text += line + "\n";
  return text;
}

/// Of the workers of `processorAndDevice`.
inline std::vector<double> coresAndDevice(double core, double device) {
  std::vector<double> batches(48, core);
  batches.push_back(device);
  return batches;
}

inline RunConfig workersDeck(WorkerRule rule, std::int64_t shared) {
  RunConfig config;
  config.strategy.kind = StrategyKind::hogbatch;
  config.strategy.hogbatch.rule = rule;
  config.strategy.hogbatch.shared_workers = shared;
  config.training.batch = 64;
  return config;
}

} // namespace partita::test
