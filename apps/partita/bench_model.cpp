#include "bench_model.hpp"

#include "partita/config/deck.hpp"
#include "partita/config/text.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/log.hpp"
#include "partita/data/order.hpp"
#include "partita/optim/optimiser.hpp"
#include "partita/plan/cost/typical.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/strategy/stage_trainer.hpp"
#include "partita/train/banner.hpp"
#include "partita/train/setup.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <numeric>

namespace partita {

BenchModel::BenchModel(const RunConfig& deck, DataSets data, const BenchSetting& setting)
    : config(withoutIdlePrefetch(parseDeck(writeDeck(deck), "bench", setting.overrides), setting.self)),
      sets(std::move(data)) {
  std::int64_t& log_every = config.run.log_every;
  if (log_every == 0) log_every = std::numeric_limits<std::int64_t>::max(); // a short run would log each step
  config.strategy.kind = StrategyKind::joint;
  config.strategy.parts = 1;
  std::string& folder = config.optimiser.offload_directory;
  if (folder.empty()) folder = std::filesystem::temp_directory_path().string();
  planRunLength(config, sets.train.size()); // refuses batches larger than the data
  partition = planPartition(config, planNetwork(config.network, sets.shape, sets.classes), sets.classes);
  grid = std::make_unique<Grid>(setting.self, planGrid(config.strategy, partition, 1));
  local = std::make_unique<LocalStage>(config, partition.stages[0], sets.classes, config.training.batch);
}

double bytesMoved(const std::vector<LayerPlan>& layers, std::int64_t samples, Precision precision) {
  double values = 0.0;
  for (const LayerPlan* layer : leavesOf(layers)) {
    const auto weights = static_cast<double>(layer->parameters()),
               activations = static_cast<double>((layer->inputs() + layer->outputs()) * samples);
    values += (weights > 0.0 ? 3.0 : 2.0) * (weights + activations);
  }
  return values * static_cast<double>(bytesOf(precision));
}

namespace {

/// Seconds of a step in each of `repeats` blocks of `steps` training steps, after one block of warm-up.
std::vector<double> timeBlocks(const ExecSpace& space, BenchModel& model, int repeats, int steps) {
  const std::int64_t total = static_cast<std::int64_t>(repeats + 1) * steps;
  const std::int64_t batch = model.config.training.batch;
  const FeatureRows rows(model.sets, model.sets.train);
  BatchReader reader(&rows, model.sets.train, trainingOrder(model.sets.train.size(), 1, batch, 0, 1, 0),
                     total, batch, model.config.data.prefetch);
  StageTrainer trainer(model.config, *model.local, *model.grid, {total, total});
  std::vector<double> seconds;
  for (int block = 0; block <= repeats; ++block) {
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) {
      const Batch read = reader.next(space);
      trainer.step(space, read.features, {read.labels, Matrix()});
    }
    fence(space, "partita::bench::steps");
    if (block > 0) seconds.push_back(secondsSince(start) / steps);
  }
  return seconds;
}

/// Repeats the step with a fence after each phase, to see where the time goes.
std::array<double, phase_count> timePhases(const ExecSpace& space, BenchModel& model, int steps) {
  PhaseTimes::enable(true);
  PhaseTimes::reset();
  timeBlocks(space, model, 1, steps); // runs as many again to warm up, which count too
  std::array<double, phase_count> seconds = PhaseTimes::seconds();
  PhaseTimes::enable(false);
  for (double& phase : seconds) phase /= 2 * steps;
  return seconds;
}

double flopsOfStep(const BenchModel& model) {
  return model.partition.joint.flops * static_cast<double>(model.config.training.batch);
}

double bytesOfUpdate(const BenchModel& model) {
  const std::int64_t parameters = model.local->stage.masters().size();
  return static_cast<double>(parameters * makeOptimiser(model.config.optimiser, 1)->bytesPerParameter());
}

void showPhases(const BenchModel& model, const StepTimes& times, const BenchRates& rates) {
  const double adam_bytes = bytesOfUpdate(model);
  for (const Phase phase : {Phase::gemm, Phase::elementwise, Phase::optimiser, Phase::data}) {
    const double ms = 1e3 * times.phases[static_cast<std::size_t>(phase)];
    std::string text = formatted("    %-22s %8.3f ms", phaseName(phase), ms);
    if (phase == Phase::gemm) {
      text +=
          formatted("  %5.1f %% of the %s rate", 1e-4 * flopsOfStep(model) / ms / rates.gemm, rates.product);
    } else if (phase == Phase::optimiser) {
      text += formatted("  %s per step, %5.1f %% of the triad rate", formatBytes(adam_bytes).c_str(),
                        1e-4 * adam_bytes / ms / rates.triad);
    }
    Log::info(text);
  }
}

} // namespace

double StepTimes::update() const {
  return step * phases[static_cast<std::size_t>(Phase::optimiser)] /
         std::accumulate(phases.begin(), phases.end(), 0.0);
}

StepTimes timeSteps(const ExecSpace& space, BenchModel& model, bool quick) {
  const double expected = typical(Typical::median, timeBlocks(space, model, 1, 2));
  const int steps = std::max(1, static_cast<int>((quick ? 0.05 : 0.4) / expected));
  StepTimes times;
  times.step = typical(Typical::median, timeBlocks(space, model, quick ? 3 : 9, steps));
  times.phases = timePhases(space, model, std::min(steps, 20));
  return times;
}

Measurement measureSteps(const ExecSpace& space, const std::string& name, BenchModel& model, bool quick,
                         const BenchRates& rates) {
  const StepTimes times = timeSteps(space, model, quick);
  const double ms = 1e3 * times.step, rate = 1e-9 * flopsOfStep(model) / times.step;
  Log::info(formatted("  %-12s %8.3f ms per step, %6.1f GFLOP/s = %5.1f %% of %s", name.c_str(), ms, rate,
                      100.0 * rate / rates.gemm, rates.product));
  showPhases(model, times, rates);
  const double bytes =
      bytesMoved(model.partition.stages[0].layers, model.config.training.batch, model.config.run.precision) +
      bytesOfUpdate(model);
  return {name, ms, "ms", flopsOfStep(model), bytes};
}

} // namespace partita
