#include "partita/train/training_run.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/threads.hpp"
#include "partita/config/deck.hpp"
#include "partita/config/names.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/core/region.hpp"
#include "partita/io/parameters_file.hpp"
#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/recovery/recovery.hpp"
#include "partita/strategy/sil/sil.hpp"
#include "partita/train/banner.hpp"
#include "partita/train/monitor.hpp"
#include "partita/train/predictions.hpp"
#include "partita/train/run_directory.hpp"
#include "partita/train/summary.hpp"

#include <algorithm>

namespace partita {

namespace {

/// `joint` is one stage that learns the true labels: the same engine without cuts.
RunConfig effective(RunConfig config) {
  if (config.strategy.kind == StrategyKind::joint) {
    config.strategy.stages = 1;
    config.strategy.cuts.clear();
    config.strategy.cut_rule = CutRule::flops;
    config.strategy.input = StageInput::relay;
    config.strategy.recovery_epochs = 0;
  }
  return config;
}

/// A thread that makes batches ahead helps where it has a core to itself, and costs where it takes turns with
/// the rank's own.
RunConfig withoutIdlePrefetch(RunConfig config, const Communicator& world) {
  const bool core_to_spare = threadsForThisRank(world) > ExecSpace().concurrency();
  if (device_is_host && !core_to_spare) config.data.prefetch = 0;
  return config;
}

/// Can the training set be shared out in batches over this grid? Throws UserError.
void checkTraining(const RunConfig& config, const DataSets& sets, const GridPlan& grid) {
  countSteps(config, sets.train.size());
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

/// The parts that every collective command sets up.
struct Setup {
  Setup(const Communicator& world, const RunConfig& deck, bool learns)
      : config(withoutIdlePrefetch(effective(deck), world)), plans(makePlans(world, config, learns)),
        grid(world, plans.grid), stages(makeLocalStages(config, plans.partition, grid, plans.sets.classes)) {}

  RunConfig config;
  Plans plans;
  Grid grid;
  std::vector<std::unique_ptr<LocalStage>> stages;
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

} // namespace

void trainDeck(const Communicator& world, const RunConfig& deck, const RunOptions& options) {
  const ExecSpace space;
  const Provenance provenance = showBanner(space, world, options.command_line);
  Setup setup(world, deck, true);
  const RunDirectory directory(world, options.run_directory, writeDeck(deck));
  const RunConfig& config = setup.config;
  showPartition(config, setup.plans.partition, setup.grid.plan());

  const StepCount count = countSteps(config, setup.plans.sets.train.size());
  Monitor monitor(config, setup.plans.partition, setup.grid, directory.file("history.csv"),
                  setup.plans.sets.classes, count);
  const RunContext context{config,  setup.plans.partition, setup.grid, setup.plans.sets, setup.stages,
                           monitor, directory.scratch()};
  PhaseTimes::enable(config.run.timing);
  PhaseTimes::reset();
  MPI_Pcontrol(1); // lets an MPI profiler tell training from set-up and evaluation
  RunTimes times = SilTraining(context).run(space);
  if (config.strategy.recovery_epochs > 0) {
    const RunTimes recovery = Recovery(context).run(space);
    times.training += recovery.training;
    times.evaluation += recovery.evaluation;
  }
  MPI_Pcontrol(0);
  monitor.finish();
  printTimes();

  Summary summary;
  summary.evaluation =
      evaluateJoined(space, config, setup.grid, setup.stages, setup.plans.sets, setup.plans.sets.test);
  summary.parameters_hash = hashParameters(setup.grid, stagePointers<const Stage*>(setup.stages));
  summary.times = times;
  summary.count = count;
  summary.provenance = provenance;
  if (directory.exists()) {
    writeParameters(directory.file("parameters.h5"), writeDeck(deck), setup.plans.partition, setup.grid,
                    stagePointers<const Stage*>(setup.stages));
  }
  finishSummary(summary, deck, setup.plans.partition, setup.grid, directory.file("summary.json"));
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
    deck = parseDeck(inspectParameters(file).deck, file, overrides);
    deck.strategy.replicas = evaluationReplicas(deck.strategy, world.size());
  });
  Setup setup(world, deck, false);
  collectively(world, [&] { checkParameters(file, setup.plans.partition); });
  readParameters(file, setup.grid, stagePointers<Stage*>(setup.stages));
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
  const StepCount count = countSteps(config, sets.train.size());
  Log::info("# data: " + std::to_string(sets.train.size()) + " training, " +
            std::to_string(sets.validation.size()) + " validation, " + std::to_string(sets.test.size()) +
            " test samples of " + std::to_string(sets.width()) + " values, " + std::to_string(sets.classes) +
            " classes; " + std::to_string(count.steps) + " steps a stage");
  showPartition(config, partition, grid);
  Log::info("# nothing was run");
}

} // namespace partita
