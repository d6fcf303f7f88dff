#include "partita/train/training_run.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/text.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/log.hpp"
#include "partita/core/memory.hpp"
#include "partita/core/region.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/io/stage_tensors.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/hogbatch/departure.hpp"
#include "partita/strategy/strategy.hpp"
#include "partita/train/banner.hpp"
#include "partita/train/continued_log.hpp"
#include "partita/train/monitor.hpp"
#include "partita/train/restart.hpp"
#include "partita/train/results.hpp"
#include "partita/train/run_control.hpp"
#include "partita/train/run_directory.hpp"
#include "partita/train/setup.hpp"

#include <algorithm>
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
Outcome reportStop(const RunConfig& config, const RunControl& control, const Checkpointer& checkpointer,
                   const RunDirectory& directory, bool kept) {
  const std::string stopped = "stopped (" + control.stopReason() + ")";
  if (!directory.exists()) {
    Log::error(stopped + "; without a run directory (-d) nothing was kept");
    return Outcome::failed;
  }
  if (!config.strategy.hogbatch.replay.empty()) {
    Log::error(stopped + "; a replay cannot be continued, only started again with --overwrite");
    return Outcome::failed;
  }
  if (!kept) {
    Log::error(stopped + ", but the last checkpoint could not be written");
    return Outcome::failed;
  }
  Log::info(stopped + "; " + checkpointer.lastFile() + " is complete: continue with -r latest");
  return Outcome::stopped;
}

/// A run that continues with the remaining ranks when others are lost.
struct Continued {
  const RunConfig& deck;       ///< for all ranks of the beginning
  LossWatch* losses = nullptr; ///< null: a rank that dies ends the job
  MeetingState state = {};
  bool prepared = false; ///< the run directory
};

/// In place of a file to continue from: the state kept by rank 0, which all ranks have.
Restart restartFrom(const MeetingState& state, const RunLength& length, const DataSets& sets,
                    std::int64_t replicas) {
  Restart restart;
  restart.start = state.position;
  restart.keeps_state = restart.same_stages = true;
  RunProgress& found = restart.found.emplace();
  found.position = state.position;
  // A checkpoint that was not finished is written again.
  found.run_step = state.begun ? length.runStep(state.position) : -1;
  found.samples = static_cast<std::int64_t>(sets.train.size());
  found.per_epoch = length.per_epoch;
  found.training_seconds = state.times.training;
  found.evaluation_seconds = state.times.evaluation;
  found.elapsed_seconds = state.times.training + state.times.evaluation;
  found.traffic = state.traffic;
  found.replicas = replicas;
  found.numbers = state.numbers;
  return restart;
}

/// Ends the part of a run that can continue without lost ranks.
Outcome ended(const Continued& continued, Outcome outcome) {
  const int code = outcome == Outcome::stopped    ? exit_stopped
                   : outcome == Outcome::finished ? 0
                                                  : exit_failure;
  if (continued.losses != nullptr) continued.losses->resultsAreThere(code);
  return outcome;
}

/// Trains on the remaining ranks; see trainDeck.
Outcome trainOn(const ExecSpace& space, const Communicator& world, const RunConfig& deck,
                const RunDirectory& directory, const RunOptions& options, Provenance provenance,
                Continued& continued) {
  const bool goes_on = continued.state.any;
  const std::string restart_file = goes_on ? "" : options.start.file;
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
    if (goes_on) restart = restartFrom(continued.state, length, plans.sets, setup.grid.replicas());
    if (!restart_file.empty())
      readParameters(*restart.opened, setup.stagePointers<Stage*>(),
                     restart.replicaOf(config, setup.grid.replica()));
  });
  for (const auto& local : setup.stages)
    if (goes_on) local->stage.setParameters(space, continued.state.parameters.data());
  const std::int64_t first = length.runStep(restart.start);
  const bool same_course = restart.keeps_state && first >= restart.found->run_step;
  collectively(world, [&] {
    const bool logs = config.run.decisions && directory.exists() && !restart_file.empty();
    if (world.rank() == 0 && logs) // other ranks may see its files late
      checkContinuedLog(config, directory, restart, same_course, setup.grid.replicas());
  });
  collectively(world, [&] {
    if (restart.start.phase == RunPhase::training)
      checkFiles(config, length, static_cast<std::int64_t>(plans.sets.train.size()), directory.scratch());
  });
  if (!continued.prepared) {
    directory.prepare(
        world, writeDeck(continued.deck), options.start,
        {same_course, same_course && config.run.decisions, restart.keeps_state && first == length.total()});
    continued.prepared = true;
  }
  if (world.rank() == 0 || goes_on) setup.grid.traffic = restart.traffic();

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
  const RunFacts facts = factsOf(world, continued.deck, plans.sets, provenance, plans.grid.first_rank);
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
                           trace.get(),
                           continued.losses,
                           continued.losses == nullptr ? nullptr : &continued.state};
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
    const bool in_place = !broadcast(world, std::string(directory.moved() ? "" : "in place")).empty();
    if (trace != nullptr && in_place) trace->write(directory.file("trace.json"));
    return ended(continued, reportStop(config, control, checkpointer, directory, kept));
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
    collectively(world, [&] { directory.requireInPlace(); });
    writeResults(summary, facts, setup, monitor, directory);
  } catch (const AgreedError& error) { // at this point the disk is at fault, not the deck
    for (const std::string& message : error.messages()) Log::error(message);
    return ended(continued, Outcome::failed);
  }
  if (trace != nullptr) trace->write(directory.file("trace.json"));
  return ended(continued, Outcome::finished);
}

/// The values of rank 0 on every rank.
template <class T>
void share(const Communicator& world, std::vector<T>& values) {
  const std::string bytes =
      broadcast(world, std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  values.resize(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
}

/// Data that differ between ranks are kept.
void share(const Communicator& world, Continued& continued) {
  MeetingState& state = continued.state;
  std::vector<std::int64_t> facts{continued.prepared, state.any,       state.meets,
                                  state.begun,        state.evaluates, state.position.step};
  share(world, facts);
  continued.prepared = facts[0] != 0;
  state.any = facts[1] != 0;
  state.meets = facts[2] != 0;
  state.begun = facts[3] != 0;
  state.evaluates = facts[4] != 0;
  state.position = {RunPhase::training, 0, facts[5]};
  share(world, state.numbers);
  share(world, state.parameters);
}

/// Trains with the remaining ranks, until no more are lost.
Outcome trainWithRanksLeft(const ExecSpace& space, const Communicator& world, const RunConfig& deck,
                           const RunDirectory& directory, const RunOptions& options,
                           const Provenance& provenance) {
  const auto watchdog = static_cast<double>(deck.run.watchdog);
  const double patience = watchdog > 0.0 ? std::min(60.0, 0.25 * watchdog) : 60.0; // s
  Continued continued{deck};
  RunConfig left = deck;
  bool any_lost = false;
  auto losses = std::make_unique<LossWatch>(world, LossWatch::After::go_on, patience);
  for (;;) {
    std::vector<int> lost;
    try {
      const Communicator ranks = losses->ranks().duplicate();
      if (any_lost) share(ranks, continued);
      continued.losses = losses.get();
      return trainOn(space, ranks, left, directory, options, provenance, continued);
    } catch (const RanksLost& loss) {
      lost = loss.ranks();
    }
    any_lost = true;
    const Communicator& before = losses->ranks();
    if (before.rank() == 0) leaveOut(lost, left.strategy, before, continued.state);
    left.strategy = withoutWorkers(left.strategy, lost);
    losses = std::make_unique<LossWatch>(*losses);
    const std::int64_t step = continued.state.any ? continued.state.position.step : 0;
    Log::info("continuing with " + counted(losses->ranks().size() - 1, "worker") + " after step " +
              std::to_string(step));
  }
}

} // namespace

Outcome trainDeck(const Communicator& world, const RunConfig& deck, const RunDirectory& directory,
                  const RunOptions& options) {
  const ExecSpace space;
  const Provenance provenance = showBanner(space, world, options.command_line);
  AllocationCounter::restartPeak(); // the banner measures a product
  if (planOf(deck.strategy).toleratesLosses(deck.strategy))
    return trainWithRanksLeft(space, world, deck, directory, options, provenance);
  Continued continued{deck};
  return trainOn(space, world, deck, directory, options, provenance, continued);
}

} // namespace partita
