#include "partita/train/training_run.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/log.hpp"
#include "partita/core/memory.hpp"
#include "partita/core/region.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/io/stage_tensors.hpp"
#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/strategy.hpp"
#include "partita/train/banner.hpp"
#include "partita/train/monitor.hpp"
#include "partita/train/restart.hpp"
#include "partita/train/results.hpp"
#include "partita/train/run_control.hpp"
#include "partita/train/run_directory.hpp"
#include "partita/train/setup.hpp"

#include <cstdio>
#include <cstring>

namespace partita {

namespace {

void printTimes() {
  if (!PhaseTimes::enabled()) return;
  const auto seconds = PhaseTimes::seconds();
  double total = 0.0;
  for (const double value : seconds) total += value;
  Log::info("time of rank 0 by phase:");
  for (int i = 0; i < phase_count; ++i) {
    char line[80];
    std::snprintf(line, sizeof line, "  %-24s %9.3f s %6.1f %%", phaseName(static_cast<Phase>(i)), seconds[i],
                  100.0 * seconds[i] / total);
    Log::info(line);
  }
}

/// Trains everything that the deck asks for; returns false if the run was ended early.
bool train(const ExecSpace& space, const RunContext& context) {
  PhaseTimes::enable(context.config.run.timing);
  PhaseTimes::reset();
  MPI_Pcontrol(1); // lets an MPI profiler separate training from set-up and evaluation
  const bool done = makeStrategy(context)->run(space);
  MPI_Pcontrol(0);
  return done;
}

/// Returns the floats of rank `root` on every rank.
std::vector<float> broadcast(const Communicator& world, const std::vector<float>& own, int root) {
  const std::string bytes = broadcast(
      world, std::string(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(float)), root);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// The same on every rank, as files require it; only the first rank of the grid is sure to have the features.
RunFacts factsOf(const Communicator& world, const RunConfig& deck, const DataSets& sets,
                 const Provenance& own, int first) {
  RunFacts facts{writeDeck(deck),
                 sets.classes,
                 sets.shape,
                 broadcast(world, sets.shift, first),
                 broadcast(world, sets.scale, first),
                 sets.label_values,
                 {}};
  for (const auto& [name, value] : own) facts.provenance.emplace_back(name, broadcast(world, value));
  return facts;
}

/// Reports how a run was stopped before its end.
Outcome reportStop(const RunControl& control, const Checkpointer& checkpointer, const RunDirectory& directory,
                   bool kept) {
  const std::string stopped = "stopped (" + control.stopReason() + ")";
  if (!directory.exists()) {
    Log::error(stopped + "; without a run directory (-d) nothing was kept");
    return Outcome::failed;
  }
  if (!kept) {
    Log::error(stopped + ", but the last checkpoint could not be written");
    return Outcome::failed;
  }
  Log::info(stopped + "; " + checkpointer.lastFile() + " is complete: continue with -r latest");
  return Outcome::stopped;
}

} // namespace

Outcome trainDeck(const Communicator& world, const RunConfig& deck, const RunDirectory& directory,
                  const RunOptions& options) {
  const std::string& restart_file = options.start.file;
  const ExecSpace space;
  Provenance provenance = showBanner(space, world, options.command_line);
  AllocationCounter::restartPeak(); // the banner measures a product
  Setup setup(world, deck, directory.scratch());
  provenance.emplace_back("messages", showMessagePaths(setup.grid));
  const RunConfig& config = setup.config;
  const Plans& plans = setup.plans;
  showPartition(config, plans.partition, setup.grid.plan(), deviceKind(setup.grid.paths()));

  std::optional<StepCost> predicted;
  std::optional<WorkerForecast> workers;
  collectively(world, [&] {
    predicted = predictedCost(config, plans.sets, plans.partition, plans.grid);
    workers = predictedWorkers(config, plans.sets, plans.grid);
  });
  const RunLength length = planRunLength(config, plans.sets.train.size());
  Restart restart;
  collectively(world, [&] {
    restart =
        planRestart(restart_file, deck, config, plans.partition, length, plans.sets, setup.grid.replicas());
    if (!restart_file.empty())
      readParameters(*restart.opened, setup.stagePointers<Stage*>(),
                     restart.replicaOf(config, setup.grid.replica()));
  });
  const std::int64_t first = length.runStep(restart.start);
  directory.prepare(world, writeDeck(deck), options.start,
                    {restart.keeps_state && first >= restart.found->run_step,
                     restart.keeps_state && first == length.total()});
  if (world.rank() == 0) setup.grid.traffic = restart.traffic();

  Mailbox mailbox(world);
  std::unique_ptr<Monitor> listener;
  collectively(world, [&] {
    listener =
        std::make_unique<Monitor>(config, plans.partition, setup.grid, mailbox, directory.file("history.csv"),
                                  directory.file("workers.csv"), plans.sets.classes, length,
                                  Monitor::Start{restart.start, restart.elapsed()});
  });
  Monitor& monitor = *listener;
  TrainingClock clock(restart.spent());
  const RunFacts facts = factsOf(world, deck, plans.sets, provenance, plans.grid.first_rank);
  Checkpointer checkpointer({config, plans.partition, setup.grid, setup.stages, length, clock, monitor,
                             directory, facts, static_cast<std::int64_t>(plans.sets.train.size())},
                            MpiEnvironment::threadsMayCall());
  RunControl control(setup.grid, config, length, restart, directory, checkpointer, mailbox,
                     options.time_limit_seconds);
  std::unique_ptr<ScheduleTrace> trace;
  if (config.run.trace > 0) trace = std::make_unique<ScheduleTrace>(setup.grid);
  const RunContext context{config,
                           plans.partition,
                           setup.grid,
                           plans.sets,
                           setup.stages,
                           monitor,
                           control,
                           clock,
                           length,
                           restart.start,
                           directory.scratch(),
                           setup.window.get(),
                           config.run.decisions && directory.exists() ? directory.file("decisions.csv") : "",
                           trace.get()};
  const double before = clock.times().training;
  const bool done = train(space, context);
  const std::int64_t taken = length.total() - first;
  std::optional<StepCost> measured;
  if (predicted && done && taken > 0)
    measured = measuredCost(config, setup.grid, clock.times().training - before, taken, length.turns);
  const bool kept = control.finish();
  mailbox.close();
  monitor.pump();
  printTimes();
  if (!done) {
    if (trace != nullptr) trace->write(directory.file("trace.json"));
    return reportStop(control, checkpointer, directory, kept);
  }

  Summary summary;
  summary.evaluation = evaluateJoined(space, config, setup.grid, setup.stages, plans.sets, plans.sets.test);
  summary.parameters_hash = broadcast(world, hashParameters(setup.grid, setup.stagePointers<const Stage*>()),
                                      plans.grid.first_rank);
  summary.times = clock.times();
  summary.length = length;
  summary.provenance = provenance;
  summary.predicted = predicted;
  summary.measured = measured;
  summary.workers = workers;
  try {
    writeResults(summary, facts, setup, monitor, directory);
  } catch (const AgreedError& error) { // at this point the disk is at fault, not the deck
    for (const std::string& message : error.messages()) Log::error(message);
    return Outcome::failed;
  }
  if (trace != nullptr) trace->write(directory.file("trace.json"));
  return Outcome::finished;
}

} // namespace partita
