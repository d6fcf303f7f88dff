#include "bench_model.hpp"

#include "partita/config/deck.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/log.hpp"
#include "partita/core/region.hpp"
#include "partita/data/order.hpp"
#include "partita/optim/optimiser.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/strategy/stage_trainer.hpp"
#include "partita/train/banner.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

namespace partita {

BenchModel::BenchModel(const RunConfig& deck, DataSets data, const BenchSetting& setting)
    : config(parseDeck(writeDeck(deck), "bench", setting.overrides)), sets(std::move(data)) {
  config.strategy.kind = StrategyKind::joint;
  config.strategy.parts = 1;
  std::string& folder = config.optimiser.offload_directory;
  if (folder.empty()) folder = std::filesystem::temp_directory_path().string();
  partition = planPartition(config, planNetwork(config.network, sets.shape, sets.classes), sets.classes);
  grid = std::make_unique<Grid>(setting.self, planGrid(config.strategy, partition, 1));
  local = std::make_unique<LocalStage>(config, partition.stages[0], sets.classes, config.training.batch);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

namespace {

/// Milliseconds of each of `repeats` blocks of `steps` training steps, after one block of warm-up.
std::vector<double> timeSteps(const ExecSpace& space, BenchModel& model, int repeats, int steps) {
  const std::int64_t total = static_cast<std::int64_t>(repeats + 1) * steps;
  const std::int64_t batch = model.config.training.batch;
  const FeatureRows rows(model.sets, model.sets.train);
  BatchReader reader(&rows, model.sets.train, trainingOrder(model.sets.train.size(), 1, batch, 0, 1, 0),
                     total, batch, model.config.data.prefetch);
  StageTrainer trainer(model.config, *model.local, *model.grid, {total, total});
  std::vector<double> milliseconds;
  for (int block = 0; block <= repeats; ++block) {
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) {
      const Batch read = reader.next(space);
      trainer.step(space, read.features, {read.labels, Matrix()});
    }
    fence(space, "partita::bench::steps");
    const double seconds = secondsSince(start);
    if (block > 0) milliseconds.push_back(1e3 * seconds / steps);
  }
  return milliseconds;
}

/// Repeats the step with a fence after each phase, to show where the time goes.
void showPhases(const ExecSpace& space, BenchModel& model, int steps, const BenchRates& rates) {
  PhaseTimes::enable(true);
  PhaseTimes::reset();
  timeSteps(space, model, 1, steps); // runs as many again to warm up, which count too
  const auto seconds = PhaseTimes::seconds();
  PhaseTimes::enable(false);
  const double gemm_flops = model.partition.joint_flops * static_cast<double>(model.config.training.batch);
  const std::int64_t parameters = model.local->stage.masters().size();
  const auto adam_bytes =
      static_cast<double>(parameters * makeOptimiser(model.config.optimiser, 1)->bytesPerParameter());
  std::array<char, 128> line{};
  for (const Phase phase : {Phase::gemm, Phase::elementwise, Phase::optimiser, Phase::data}) {
    const double ms = 1e3 * seconds[static_cast<std::size_t>(phase)] / (2 * steps);
    std::snprintf(line.data(), line.size(), "    %-22s %8.3f ms", phaseName(phase), ms);
    std::string text = line.data();
    if (phase == Phase::gemm) {
      std::snprintf(line.data(), line.size(), "  %5.1f %% of the sgemm rate",
                    1e-4 * gemm_flops / ms / rates.gemm);
      text += line.data();
    } else if (phase == Phase::optimiser) {
      std::snprintf(line.data(), line.size(), "  %s per step, %5.1f %% of the triad rate",
                    formatBytes(adam_bytes).c_str(), 1e-4 * adam_bytes / ms / rates.triad);
      text += line.data();
    }
    Log::info(text);
  }
}

} // namespace

Measurement measureSteps(const ExecSpace& space, const std::string& name, BenchModel& model, bool quick,
                         const BenchRates& rates) {
  const std::int64_t batch = model.config.training.batch;
  const double flops = model.partition.joint_flops * static_cast<double>(batch);
  const double seconds_per_step = 1e-9 * flops / (0.7 * rates.gemm);
  const int steps = std::max(2, static_cast<int>((quick ? 0.05 : 0.4) / seconds_per_step));
  const double ms = median(timeSteps(space, model, quick ? 3 : 9, steps));
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "  %-12s %8.3f ms per step, %6.1f GFLOP/s = %5.1f %% of sgemm",
                name.c_str(), ms, 1e-6 * flops / ms, 1e-4 * flops / ms / rates.gemm);
  Log::info(line.data());
  showPhases(space, model, std::min(steps, 20), rates);
  return {name, ms, "ms"};
}

} // namespace partita
