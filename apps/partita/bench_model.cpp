#include "bench_model.hpp"

#include "partita/data/order.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/strategy/stage_trainer.hpp"

#include <algorithm>
#include <chrono>

namespace partita {

BenchModel::BenchModel(const RunConfig& deck, DataSets data, const Communicator& self)
    : config(deck), sets(std::move(data)) {
  config.strategy.kind = StrategyKind::joint;
  partition = planPartition(config, planNetwork(config.network, sets.shape, sets.classes), sets.classes);
  grid = std::make_unique<Grid>(self, planGrid(config.strategy, partition, 1));
  local = std::make_unique<LocalStage>(config, partition.stages[0], sets.classes, config.training.batch);
}

std::vector<double> timeSteps(const ExecSpace& space, BenchModel& model, int repeats, int steps) {
  using Clock = std::chrono::steady_clock;
  const std::int64_t total = static_cast<std::int64_t>(repeats + 1) * steps;
  const std::int64_t batch = model.config.training.batch;
  const FeatureRows rows(model.sets, model.sets.train);
  BatchReader reader(&rows, model.sets.train, trainingOrder(model.sets.train.size(), 1, batch, 0, 1, 0),
                     total, batch, model.config.data.prefetch);
  StageTrainer trainer(model.config, *model.local, *model.grid, 1.0, total, total);
  std::vector<double> milliseconds;
  for (int block = 0; block <= repeats; ++block) {
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) {
      const Batch read = reader.next(space);
      trainer.forward(space, read.features);
      trainer.learn(space, {read.labels, Matrix()});
    }
    fence(space, "partita::bench::steps");
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (block > 0) milliseconds.push_back(1e3 * seconds / steps);
  }
  return milliseconds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

} // namespace partita
