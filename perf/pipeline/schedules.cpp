// Measures schedules of a pipeline with kernels that take a given time. Each rank sleeps instead of
// computing, so that the number of cores does not matter, and only the schedule and the messages determine
// the time of a batch.
//
//   mpirun -n 4 partita_pipeline_schedules forward=0.010 backward=0.020 microbatches=32 jitter=0.3 batches=20

#include "partita/comm/link.hpp"
#include "partita/config/names.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/random.hpp"
#include "partita/plan/cost/pipeline_events.hpp"
#include "partita/strategy/pipeline/engine.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

using namespace partita;

namespace {

using Settings = std::map<std::string, std::string>;

Settings readSettings(int argc, char** argv) {
  Settings settings{{"forward", "0.010"}, {"backward", "0.020"}, {"microbatches", "32"}, {"jitter", "0"},
                    {"batches", "5"},     {"values", "16384"},   {"seed", "1"},          {"trace", ""}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos || settings.count(argument.substr(0, equals)) == 0) {
      std::fprintf(stderr, "unknown argument '%s'\n", argv[i]);
      std::exit(2);
    }
    settings[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  return settings;
}

struct Variant {
  std::string name;
  StrategySection strategy;
};

Variant variant(const std::string& name, PipelineSchedule schedule, std::int64_t limit = 0,
                PipelineTie tie = PipelineTie::forward_first, bool caps = false) {
  Variant made;
  made.name = name;
  made.strategy.pipeline.schedule = schedule;
  made.strategy.pipeline.limit = limit;
  made.strategy.pipeline.tie = tie;
  made.strategy.pipeline.caps = caps;
  return made;
}

std::vector<Variant> variantsFor(std::int64_t groups) {
  const auto driven = PipelineSchedule::message_driven;
  return {variant("message-driven L=G", driven, groups),
          variant("message-driven L=2G", driven, 2 * groups),
          variant("message-driven L=2G fifo", driven, 2 * groups, PipelineTie::fifo),
          variant("message-driven L=2G backward-first", driven, 2 * groups, PipelineTie::backward_first),
          variant("message-driven L=2G caps", driven, 2 * groups, PipelineTie::backward_first, true),
          variant("1f1b", PipelineSchedule::one_f_one_b),
          variant("1f1b-eager", PipelineSchedule::eager_one_f_one_b),
          variant("gpipe", PipelineSchedule::gpipe)};
}

/// The time of an operation, a function of batch, rank, microbatch and direction: the same for all schedules.
struct OperationTimes {
  explicit OperationTimes(const Settings& settings)
      : forward(std::atof(settings.at("forward").c_str())),
        backward(std::atof(settings.at("backward").c_str())),
        jitter(std::atof(settings.at("jitter").c_str())),
        seed(std::strtoull(settings.at("seed").c_str(), nullptr, 10)) {}

  double factor(std::size_t group, PassKind operation, std::int64_t number) const {
    const RandomStream random(seed, Stream::link_delay, 1000 * batch + static_cast<std::uint32_t>(group));
    const std::int64_t index = 2 * number + (operation == PassKind::forward ? 0 : 1);
    return 1.0 + jitter * (2.0 * random.uniform(static_cast<std::uint64_t>(index)) - 1.0);
  }

  double forward, backward, jitter;
  std::uint64_t seed;
  std::uint32_t batch = 0;
};

class SleepWork : public PipelineWork {
 public:
  SleepWork(const Grid& grid, const OperationTimes& times, std::int64_t values)
      : _grid(grid), _times(times), _out(makeMatrix("partita::SleepWork::out", 1, values)) {}

  std::int64_t rows(std::int64_t) const override { return 1; }
  TypedMatrix forward(const ExecSpace&, std::int64_t number, const TypedMatrix&) override {
    return sleep(PassKind::forward, _times.forward, number);
  }
  TypedMatrix backward(const ExecSpace&, std::int64_t number, const TypedMatrix&) override {
    return sleep(PassKind::backward, _times.backward, number);
  }

 private:
  TypedMatrix sleep(PassKind operation, double seconds, std::int64_t number) const {
    const double factor = _times.factor(static_cast<std::size_t>(_grid.group()), operation, number);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds * factor));
    return _out;
  }

  const Grid& _grid;
  const OperationTimes& _times;
  Matrix _out;
};

GridPlan pipelineOf(int ranks) {
  GridPlan plan;
  plan.ranks = plan.stages = plan.groups = ranks;
  for (int group = 0; group <= ranks; ++group) plan.first_stage.push_back(group);
  return plan;
}

/// Seconds from the common start to the end of the slowest rank.
double timeBatch(const Grid& grid, PipelineEngine& engine) {
  grid.world().barrier();
  const auto start = Clock::now();
  engine.runBatch(ExecSpace());
  return grid.world().maximum(secondsSince(start));
}

/// What the cost model says, with the latency of emulated links.
double predict(const OperationTimes& times, const StrategySection& strategy, int groups,
               std::int64_t microbatches) {
  const std::vector<PipelineStage> stages(static_cast<std::size_t>(groups),
                                          {times.forward, times.backward, linkModel().latency, 0.0});
  return pipelineSeconds(stages, microbatches, strategy, {},
                         [&](std::size_t group, PassKind operation, std::int64_t number) {
                           return times.factor(group, operation, number);
                         });
}

/// Seconds of the batches under one schedule.
struct Measured {
  double sum = 0.0, worst = 0.0, predicted = 0.0;
};

void show(const std::vector<Variant>& variants, const std::vector<Measured>& measured, double batches,
          double bound) {
  std::printf("%-36s %9s %9s %9s %12s\n", "schedule", "mean s", "worst s", "of bound", "of predicted");
  for (std::size_t v = 0; v < variants.size(); ++v) {
    const double mean = measured[v].sum / batches;
    std::printf("%-36s %9.4f %9.4f %9.4f %12.4f\n", variants[v].name.c_str(), mean, measured[v].worst,
                mean / bound, measured[v].sum / measured[v].predicted);
  }
}

void runAll(const Communicator& world, const Settings& settings) {
  Grid grid(world, pipelineOf(world.size()));
  const std::int64_t microbatches = std::atoll(settings.at("microbatches").c_str()),
                     batches = std::atoll(settings.at("batches").c_str()),
                     values = std::atoll(settings.at("values").c_str());
  OperationTimes times(settings);
  SleepWork work(grid, times, values);
  const std::vector<Variant> variants = variantsFor(world.size());
  std::vector<Measured> measured(variants.size());
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    times.batch = static_cast<std::uint32_t>(batch);
    for (std::size_t v = 0; v < variants.size(); ++v) {
      PipelineEngine engine(grid, variants[v].strategy, microbatches, {1, values, values}, 1, work);
      const bool traced = batch == 0 && !settings.at("trace").empty();
      ScheduleTrace trace(grid);
      engine.setTrace(traced ? &trace : nullptr);
      const double seconds = timeBatch(grid, engine);
      measured[v].sum += seconds;
      measured[v].worst = std::max(measured[v].worst, seconds);
      measured[v].predicted += predict(times, variants[v].strategy, world.size(), microbatches);
      if (!traced) continue;
      trace.write(settings.at("trace") + "-" + std::to_string(v) + ".json");
    }
  }
  if (world.rank() != 0) return;
  const double bound =
      (times.forward + times.backward) * static_cast<double>(microbatches + world.size() - 1);
  show(variants, measured, static_cast<double>(batches), bound);
}

} // namespace

int main(int argc, char** argv) {
  const MpiEnvironment mpi(argc, argv);
  Kokkos::initialize(argc, argv);
  {
    const Communicator world = Communicator::world();
    runAll(world, readSettings(argc, argv));
  }
  Kokkos::finalize();
  return 0;
}
