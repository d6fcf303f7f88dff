#include "partita/train/training_run.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/threads.hpp"
#include "partita/comm/watchdog.hpp"
#include "partita/config/deck.hpp"
#include "partita/config/names.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/core/region.hpp"
#include "partita/io/durable.hpp"
#include "partita/io/parameters_hash.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/io/write_run_file.hpp"
#include "partita/plan/effective.hpp"
#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/recovery/recovery.hpp"
#include "partita/strategy/sil/sil.hpp"
#include "partita/train/banner.hpp"
#include "partita/train/monitor.hpp"
#include "partita/train/predictions.hpp"
#include "partita/train/restart.hpp"
#include "partita/train/run_control.hpp"
#include "partita/train/run_directory.hpp"
#include "partita/train/signals.hpp"
#include "partita/train/summary.hpp"

#include <algorithm>
#include <cstring>

namespace partita {

namespace {

/// A thread that makes batches ahead helps where it has a core to itself, and costs where it takes turns with
/// the rank's own.
RunConfig withoutIdlePrefetch(RunConfig config, const Communicator& world) {
  const bool core_to_spare = threadsForThisRank(world) > ExecSpace().concurrency();
  if (device_is_host && !core_to_spare) config.data.prefetch = 0;
  return config;
}

/// Can the training set be shared out in batches over this grid? Throws UserError.
void checkTraining(const RunConfig& config, const DataSets& sets, const GridPlan& grid) {
  planRunLength(config, sets.train.size());
  if (config.training.batch >= grid.replicas) return;
  throw UserError("training/batch: a batch of " + std::to_string(config.training.batch) +
                  " samples leaves some of the " + std::to_string(grid.replicas) + " replicas without work");
}

/// What the deck and the data come to, before any rank talks to another.
struct Plans {
  Plans(const RunConfig& config, const Communicator& world, bool learns) {
    const auto seed = static_cast<std::uint64_t>(config.run.seed);
    // Who owns the first stage follows from the network, whose input follows from the data: labels and shapes
    // come first, the features only where they are needed.
    sets = loadData(config.data, seed, Need::labels_only);
    partition = planPartition(config, planNetwork(config.network, sets.width(), sets.classes), sets.classes,
                              sizeof(Real));
    grid = planGrid(config.strategy, partition, world.size());
    if (learns) checkTraining(config, sets, grid);
    if (grid.group(world.rank()) == 0) sets = loadData(config.data, seed, Need::everything);
  }

  DataSets sets;
  Partition partition;
  GridPlan grid;
};

Plans makePlans(const Communicator& world, const RunConfig& config, bool learns) {
  std::unique_ptr<Plans> plans;
  collectively(world, [&] { plans = std::make_unique<Plans>(config, world, learns); });
  return std::move(*plans);
}

Watchdog::Limits watchdogLimits(const RunConfig& config) {
  Watchdog::Limits limits;
  limits.silence = static_cast<double>(config.run.watchdog);
  return limits;
}

/// The parts that every collective command sets up.
struct Setup {
  Setup(const Communicator& world, const RunConfig& deck, bool learns)
      : config(withoutIdlePrefetch(effective(deck), world)), plans(makePlans(world, config, learns)),
        grid(world, plans.grid, chooseMessagePaths(config.run.device_aware_mpi)),
        stages(makeLocalStages(config, plans.partition, grid, plans.sets.classes)),
        watchdog(world, watchdogLimits(config)) {}

  RunConfig config;
  Plans plans;
  Grid grid;
  std::vector<std::unique_ptr<LocalStage>> stages;
  Watchdog watchdog; ///< from here on: reading the data takes as long as it takes
};

/// Replicas that let any number of ranks evaluate: as many stage groups as divide it, the samples shared by
/// the rest.
std::int64_t evaluationReplicas(const StrategySection& strategy, int ranks) {
  const bool joint = strategy.kind == StrategyKind::joint;
  int groups = joint ? 1 : std::max(1, static_cast<int>(strategy.stages));
  while (groups > 1 && (groups > ranks || ranks % groups != 0)) --groups;
  return ranks / groups;
}

template <class StagePointer>
std::vector<StagePointer> stagePointers(const std::vector<std::unique_ptr<LocalStage>>& stages) {
  std::vector<StagePointer> pointers;
  pointers.reserve(stages.size());
  for (const auto& local : stages) pointers.push_back(&local->stage);
  return pointers;
}

void printTimes() {
  if (!PhaseTimes::enabled()) return;
  const auto seconds = PhaseTimes::seconds();
  double total = 0.0;
  for (const double value : seconds) total += value;
  Log::info("time of rank 0, phase by phase:");
  for (int i = 0; i < phase_count; ++i) {
    char line[80];
    std::snprintf(line, sizeof line, "  %-24s %9.3f s %6.1f %%", phaseName(static_cast<Phase>(i)),
                  seconds[static_cast<std::size_t>(i)], 100.0 * seconds[static_cast<std::size_t>(i)] / total);
    Log::info(line);
  }
}

/// All that the deck asks for; false where the run was ended early.
bool train(const ExecSpace& space, const RunContext& context) {
  PhaseTimes::enable(context.config.run.timing);
  PhaseTimes::reset();
  MPI_Pcontrol(1); // lets an MPI profiler tell training from set-up and evaluation
  bool done = SilTraining(context).run(space);
  if (done && context.length.recovery_steps > 0) done = Recovery(context).run(space);
  MPI_Pcontrol(0);
  return done;
}

/// Floats of rank 0, on every rank.
std::vector<float> tellAll(const Communicator& world, const std::vector<float>& own) {
  const std::string bytes =
      tellAll(world, std::string(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(float)));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// The same on every rank, as files want it; rank 0 alone is sure to have the features.
RunFacts factsOf(const Communicator& world, const RunConfig& deck, const DataSets& sets,
                 const Provenance& own) {
  RunFacts facts{
      writeDeck(deck), sets.classes, sets.shape, tellAll(world, sets.shift), tellAll(world, sets.scale), {}};
  for (const auto& [name, value] : own) facts.provenance.emplace_back(name, tellAll(world, value));
  return facts;
}

/// `parameters.h5`: written like a checkpoint, with the parameters alone.
void writeParameters(const std::string& path, const RunFacts& facts, const Setup& setup) {
  RunFileContent content;
  content.facts = facts;
  content.tensors = networkTensors(setup.plans.partition, parameters_kind);
  content.values.assign(content.tensors.size(), nullptr);
  std::vector<HostVector> copies;
  for (const auto& local : setup.stages) {
    if (setup.grid.replica() != 0) break;
    copies.push_back(Kokkos::create_mirror_view_and_copy(HostSpace(), local->stage.parameters()));
    placeValues(content, local->stage, copies.back().data());
  }
  writeRunFile(setup.grid.world(), path + ".partial", content, 0);
  collectively(setup.grid.world(), [&] {
    if (setup.grid.world().rank() == 0) publishFile(path + ".partial", path);
  });
}

/// The end of a run that is not finished.
Outcome tellStop(const RunControl& control, const Checkpointer& checkpointer, const RunDirectory& directory,
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
  Log::info(stopped + "; " + checkpointer.lastFile() + " is complete: go on with -r latest");
  return Outcome::stopped;
}

} // namespace

Outcome trainDeck(const Communicator& world, const RunConfig& deck, const std::string& restart_file,
                  const RunOptions& options) {
  Signals::listen(); // before the data are read, which may take long: a wish for a checkpoint must not end that
  const ExecSpace space;
  Provenance provenance = showBanner(space, world, options.command_line);
  Setup setup(world, deck, true);
  provenance.emplace_back("messages", showMessagePaths(setup.grid));
  const RunConfig& config = setup.config;
  const Plans& plans = setup.plans;
  const RunDirectory directory(world, options.run_directory);
  showPartition(config, plans.partition, setup.grid.plan());

  const RunLength length = planRunLength(config, plans.sets.train.size());
  Restart restart;
  collectively(world, [&] {
    restart = planRestart(restart_file, deck, config, plans.partition, length, setup.grid.replicas());
    if (!restart_file.empty()) readParameters(*restart.opened, stagePointers<Stage*>(setup.stages));
  });
  directory.prepare(world, writeDeck(deck), restart_file, options.restart == "latest",
                    length.runStep(restart.start));
  if (world.rank() == 0) setup.grid.traffic = restart.traffic();

  Monitor monitor(config, plans.partition, setup.grid, directory.file("history.csv"), plans.sets.classes,
                  length, {restart.start, restart.elapsed()});
  TrainingClock clock(restart.spent());
  const RunFacts facts = factsOf(world, deck, plans.sets, provenance);
  Checkpointer checkpointer({config, plans.partition, setup.grid, setup.stages, length, clock, monitor,
                             directory, facts, static_cast<std::int64_t>(plans.sets.train.size())},
                            MpiEnvironment::threadsMayCall());
  RunControl control(setup.grid, config, length, restart, directory, checkpointer,
                     options.time_limit_seconds);
  const RunContext context{config,  plans.partition, setup.grid, plans.sets,    setup.stages,       monitor,
                           control, clock,           length,     restart.start, directory.scratch()};
  const bool done = train(space, context);
  monitor.finish();
  const bool kept = control.finish();
  printTimes();
  if (!done) return tellStop(control, checkpointer, directory, kept);

  Summary summary;
  summary.evaluation = evaluateJoined(space, config, setup.grid, setup.stages, plans.sets, plans.sets.test);
  summary.parameters_hash = hashParameters(setup.grid, stagePointers<const Stage*>(setup.stages));
  summary.times = clock.times();
  summary.length = length;
  summary.provenance = provenance;
  if (directory.exists()) writeParameters(directory.file("parameters.h5"), facts, setup);
  finishSummary(summary, deck, plans.partition, setup.grid, directory.file("summary.json"));
  return Outcome::finished;
}

void evaluateRun(const Communicator& world, const std::string& path,
                 const std::vector<std::string>& overrides, const std::string& predictions,
                 const RunOptions& options) {
  const ExecSpace space;
  showBanner(space, world, options.command_line);
  std::string file;
  RunConfig deck;
  collectively(world, [&] {
    file = parameterFileOf(path);
    deck = parseDeck(RunFile(file).facts().deck, file, overrides);
    deck.strategy.replicas = evaluationReplicas(deck.strategy, world.size());
  });
  Setup setup(world, deck, false);
  showMessagePaths(setup.grid);
  collectively(world, [&] {
    const RunFile opened(file);
    opened.verify(static_cast<std::size_t>(world.rank()), static_cast<std::size_t>(world.size()));
    checkParameters(opened, setup.plans.partition);
    readParameters(opened, stagePointers<Stage*>(setup.stages));
  });
  const DataSets& sets = setup.plans.sets;
  Predictions kept(world, predictions);
  const OutputRows keep = [&](const Matrix& logits) { kept.add(space, logits); };
  const Evaluation result = evaluateJoined(space, setup.config, setup.grid, setup.stages, sets, sets.test,
                                           kept.wanted() ? keep : OutputRows());
  if (kept.wanted()) kept.write(setup.grid, sets, sets.test);
  Log::info("test accuracy on " + std::to_string(sets.test.size()) + " samples:");
  for (std::size_t s = 0; s < result.accuracy.size(); ++s) {
    char line[96];
    const std::string who =
        s + 1 == result.accuracy.size() ? "joined network" : "stage " + std::to_string(s + 1) + " alone";
    std::snprintf(line, sizeof line, "  %-16s %6.2f %%   loss %.4f", who.c_str(), 100.0 * result.accuracy[s],
                  result.loss[s]);
    Log::info(line);
  }
  const std::string hash = hashParameters(setup.grid, stagePointers<const Stage*>(setup.stages));
  Log::info("parameters_hash " + hash);
}

void dryRun(const RunConfig& deck, int ranks) {
  Log::info(writeDeck(deck));
  const RunConfig config = effective(deck);
  const DataSets sets = loadData(config.data, static_cast<std::uint64_t>(config.run.seed), Need::everything);
  const Partition partition = planPartition(config, planNetwork(config.network, sets.width(), sets.classes),
                                            sets.classes, sizeof(Real));
  const GridPlan grid = planGrid(config.strategy, partition, ranks);
  checkTraining(config, sets, grid);
  const RunLength count = planRunLength(config, sets.train.size());
  Log::info("# data: " + std::to_string(sets.train.size()) + " training, " +
            std::to_string(sets.validation.size()) + " validation, " + std::to_string(sets.test.size()) +
            " test samples of " + std::to_string(sets.width()) + " values, " + std::to_string(sets.classes) +
            " classes; " + std::to_string(count.steps) + " steps a stage");
  showPartition(config, partition, grid);
  Log::info("# nothing was run");
}

} // namespace partita
