#include "partita/train/training_run.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/text.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/log.hpp"
#include "partita/core/memory.hpp"
#include "partita/core/region.hpp"
#include "partita/io/stage_tensors.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/divergence.hpp"
#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/strategy.hpp"
#include "partita/train/banner.hpp"
#include "partita/train/begun_run.hpp"
#include "partita/train/results.hpp"
#include "partita/train/run_control.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

void printTimes(const RunConfig& config) {
  if (!config.run.timing) return;
  const auto seconds = PhaseTimes::seconds();
  double total = 0.0;
  for (const double value : seconds) total += value;
  Log::info("time of rank 0 by phase:");
  for (int i = 0; i < phase_count; ++i) {
    Log::info(formatted("  %-24s %9.3f s %6.1f %%", phaseName(static_cast<Phase>(i)), seconds[i],
                        100.0 * seconds[i] / total));
  }
}

/// Trains everything that the deck asks for; returns false if the run was ended early.
bool train(const ExecSpace& space, const RunContext& context) {
  PhaseTimes::enable(context.config.run.timing); // the clock of the training resets them
  MPI_Pcontrol(1); // lets an MPI profiler separate training from set-up and evaluation
  const bool done = rulesOf(context.config.strategy).make(context)->run(space);
  MPI_Pcontrol(0);
  PhaseTimes::enable(false); // what follows is no part of the training
  return done;
}

/// The same on every rank, as files require it.
RunFacts factsOf(const Communicator& world, const RunConfig& deck, const DataSets& sets,
                 const Provenance& own) {
  RunFacts facts{writeDeck(deck), sets.classes, sets.shape, sets.shift, sets.scale, sets.label_values, {}};
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
  if (planOf(config.strategy).repeats(config.strategy)) {
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

/// Ends the part of a run that can continue without lost ranks.
Outcome ended(const Continued& continued, Outcome outcome) {
  const int code = outcome == Outcome::stopped    ? exit_stopped
                   : outcome == Outcome::finished ? 0
                                                  : exit_failure;
  if (continued.losses != nullptr) continued.losses->resultsAreThere(code);
  return outcome;
}

/// The table of workers; empty if none report, as in a replay.
std::string workersFile(const RunConfig& config, const RunDirectory& directory) {
  const StrategyPlan& plan = planOf(config.strategy);
  return plan.atOwnPace() && !plan.repeats(config.strategy) ? directory.file("workers.csv") : "";
}

std::unique_ptr<Monitor> makeMonitor(const Communicator& world, const BegunRun& run, Mailbox& mailbox,
                                     const RunDirectory& directory) {
  const Setup& setup = run.setup;
  std::unique_ptr<Monitor> monitor;
  collectively(world, [&] {
    monitor = std::make_unique<Monitor>(
        setup.config, setup.plans.partition, setup.grid, mailbox, directory.file("history.csv"),
        workersFile(setup.config, directory), setup.plans.sets.classes, run.length,
        Monitor::Start{run.restart.start, run.restart.elapsed(), run.lastKeptStep()});
  });
  return monitor;
}

/// What works beside the strategy while it trains. A part uses those before it, so they end in the opposite
/// order: the last checkpoint is written before the mailbox ends.
struct TrainingParts {
  /// Collective.
  TrainingParts(const Communicator& world, BegunRun& run, const Continued& continued,
                const RunDirectory& directory, std::int64_t time_limit)
      : mailbox(world), monitor(makeMonitor(world, run, mailbox, directory)), clock(run.restart.spent()),
        facts(factsOf(world, continued.deck, run.setup.plans.sets, run.provenance)),
        checkpointer({run.setup.config, run.setup.plans.partition, run.setup.grid, run.setup.stages,
                      run.length, clock, *monitor, directory, facts, run.samples()},
                     continued.checkpoints, MpiEnvironment::threadsMayCall()),
        control(run.setup.grid, run.setup.config, run.length, run.restart, directory, checkpointer, mailbox,
                time_limit) {
    const RunConfig& config = run.setup.config;
    if (config.run.trace > 0 && planOf(config.strategy).usesMicrobatches(config.strategy))
      trace = std::make_unique<ScheduleTrace>(run.setup.grid);
  }

  Mailbox mailbox;
  std::unique_ptr<Monitor> monitor;
  TrainingClock clock;
  RunFacts facts;
  Checkpointer checkpointer;
  RunControl control;
  std::unique_ptr<ScheduleTrace> trace; ///< null: none
};

RunContext contextOf(BegunRun& run, TrainingParts& parts, const RunDirectory& directory,
                     Continued& continued) {
  Setup& setup = run.setup;
  return {setup.config,
          setup.plans.partition,
          setup.grid,
          setup.plans.sets,
          setup.stages,
          *parts.monitor,
          parts.control,
          parts.clock,
          run.length,
          run.restart.start,
          directory.scratch(),
          setup.window.get(),
          setup.config.run.decisions && directory.exists() ? directory.file("decisions.csv") : "",
          parts.trace.get(),
          continued.losses,
          continued.losses == nullptr ? nullptr : &continued.state,
          std::move(run.activation_files)}; // freed with the context
}

/// Writes the trace of a run that has one; a failure does not end the run. Collective.
void writeTrace(const Communicator& world, const TrainingParts& parts, const RunDirectory& directory) {
  if (parts.trace == nullptr) return;
  std::string failure;
  if (world.rank() == 0) failure = failureOf([&] { directory.makeRoom({"trace.json"}); });
  if (!failure.empty()) Log::warning("no trace was written: " + failure);
  if (world.maximum(std::int64_t{failure.empty() ? 0 : 1}) == 0)
    parts.trace->write(directory.file("trace.json"));
}

/// A run that was stopped; `kept`: its last checkpoint is complete.
Outcome endEarly(const Communicator& world, const BegunRun& run, TrainingParts& parts,
                 const RunDirectory& directory, bool kept) {
  const bool in_place = world.maximum(std::int64_t{directory.moved() ? 1 : 0}) == 0;
  if (in_place) writeTrace(world, parts, directory);
  return reportStop(run.setup.config, parts.control, parts.checkpointer, directory, kept);
}

/// Where these ranks are, in their order; on rank 0.
std::vector<RankPlace> placesOf(const Communicator& ranks, const Banner& banner) {
  std::vector<RankPlace> places;
  if (ranks.rank() != 0) return places;
  places.reserve(static_cast<std::size_t>(ranks.size()));
  for (const int rank : ranks.worldRanks())
    places.push_back(banner.places.at(static_cast<std::size_t>(rank)));
  return places;
}

/// Evaluates the trained network. Collective. Throws RunError if its parameters are not finite.
Summary summaryOf(const ExecSpace& space, const Communicator& world, BegunRun& run,
                  const TrainingParts& parts, const Banner& banner, const std::optional<StepCost>& measured) {
  Setup& setup = run.setup;
  const DataSets& sets = setup.plans.sets;
  if (setup.grid.replica() == 0) // the results are those of this replica
    for (const auto& stage : setup.stages) failIfNotFinite(space, *stage, run.length.total());
  Summary summary;
  summary.evaluation = evaluateJoined(space, setup.config, setup.grid, setup.stages, sets, sets.test);
  if (world.rank() == 0 && sets.test.size() > 0 && !std::isfinite(summary.evaluation.loss.back()))
    Log::warning("the loss on the test set is not finite");
  summary.parameters_hash = broadcast(world, hashParameters(setup.grid, setup.stagePointers<const Stage*>()),
                                      setup.plans.grid.first_rank);
  summary.times = parts.clock.times();
  summary.length = run.length;
  summary.provenance = run.provenance;
  summary.product_rates = banner.product_rates;
  summary.places = placesOf(world, banner);
  summary.predicted = run.predicted;
  summary.measured = measured;
  summary.forecast = run.forecast;
  return summary;
}

/// A run that has trained to its end.
Outcome finish(const Communicator& world, const Summary& summary, BegunRun& run, TrainingParts& parts,
               const RunDirectory& directory) {
  try {
    collectively(world, [&] { directory.requireInPlace(); });
    writeResults(summary, parts.facts, run.setup, *parts.monitor, directory);
  } catch (const AgreedError& error) { // at this point the disk is at fault, not the deck
    for (const std::string& message : error.messages()) Log::error(message);
    return Outcome::failed;
  }
  if (run.firstStep() < run.length.total()) writeTrace(world, parts, directory);
  return Outcome::finished;
}

/// Returns whether all steps were taken.
bool trainUntilLoss(const ExecSpace& space, const RunContext& context, const RunControl& control) {
  try {
    return train(space, context);
  } catch (const RanksLost&) {
    if (context.meeting != nullptr) control.describe(*context.meeting);
    throw;
  }
}

/// Trains on the remaining ranks; see trainDeck.
Outcome trainOn(const ExecSpace& space, const Communicator& world, const RunConfig& deck,
                const RunDirectory& directory, const RunOptions& options, const Banner& banner,
                Continued& continued) {
  BegunRun run(space, world, deck, directory, options.start, banner.provenance, continued);
  TrainingParts parts(world, run, continued, directory, options.time_limit_seconds);
  const RunContext context = contextOf(run, parts, directory, continued);
  const std::int64_t steps = run.length.total() - run.firstStep();
  const double before = parts.clock.times().training;
  const bool done = trainUntilLoss(space, context, parts.control);
  std::optional<StepCost> measured;
  if (run.predicted && done && steps > 0 &&
      hasMeanSteps(run.setup.config.strategy, run.length, run.firstStep()))
    measured = measuredCost(run.setup.grid, parts.clock.times().training - before, steps, run.length.turns);
  const bool kept = parts.control.finish();
  parts.mailbox.close();
  parts.monitor->pump();
  printTimes(run.setup.config);
  if (!done) return ended(continued, endEarly(world, run, parts, directory, kept));
  const Summary summary = summaryOf(space, world, run, parts, banner, measured);
  return ended(continued, finish(world, summary, run, parts, directory));
}

/// What rank 0 knows, on every rank. Data that differ between ranks are kept.
void broadcastState(const Communicator& world, Continued& continued) {
  MeetingState& state = continued.state;
  std::vector<std::int64_t> facts{continued.prepared, static_cast<std::int64_t>(state.work), state.evaluates,
                                  state.position.step, state.kept_step};
  broadcast(world, facts);
  continued.prepared = facts[0] != 0;
  state.work = static_cast<MeetingState::Work>(facts[1]);
  state.evaluates = facts[2] != 0;
  state.position = {RunPhase::training, 0, facts[3]};
  state.kept_step = facts[4]; // an interrupted meeting may have set it on some ranks only
  continued.file = broadcast(world, continued.file);
  broadcast(world, state.numbers);
  broadcast(world, state.parameters);
}

/// Trains with the remaining ranks, until no more are lost.
Outcome trainWithRanksLeft(const ExecSpace& space, const Communicator& world, const RunConfig& deck,
                           const RunDirectory& directory, const RunOptions& options, const Banner& banner) {
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
      if (any_lost) broadcastState(ranks, continued);
      continued.losses = losses.get();
      return trainOn(space, ranks, left, directory, options, banner, continued);
    } catch (const RanksLost& loss) {
      lost = loss.ranks();
    }
    any_lost = true;
    const Communicator& before = losses->ranks();
    const StrategyRules& rules = rulesOf(left.strategy);
    if (before.rank() == 0) rules.leaveOut(lost, left.strategy, before, continued.state);
    left.strategy = rules.withoutRanks(left.strategy, lost);
    losses = std::make_unique<LossWatch>(*losses);
    const std::int64_t step = continued.state.any() ? continued.state.position.step : 0;
    Log::info("continuing with " + counted(losses->ranks().size() - 1, "worker") + " after step " +
              std::to_string(step));
  }
}

} // namespace

Outcome trainDeck(const Communicator& world, const RunConfig& deck, const RunDirectory& directory,
                  const RunOptions& options) {
  const ExecSpace space;
  const Banner banner = showBanner(space, world, options.command_line);
  AllocationCounter::restartPeak(); // the banner measures a product
  if (planOf(deck.strategy).toleratesLosses(deck.strategy))
    return trainWithRanksLeft(space, world, deck, directory, options, banner);
  Continued continued{deck};
  return trainOn(space, world, deck, directory, options, banner, continued);
}

} // namespace partita
