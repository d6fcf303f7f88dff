#include "partita/train/check_plans.hpp"

#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/log.hpp"
#include "partita/core/stored_vector.hpp"
#include "partita/data/augmentation.hpp"
#include "partita/data/load_data.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/parts/part_traffic.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/running_statistics.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/strategy.hpp"
#include "partita/train/banner.hpp"
#include "partita/train/forecast.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>

namespace partita {

namespace {

/// Number of values in the largest message between stages.
double largestActivation(const RunConfig& config, const Partition& partition, const GridPlan& grid) {
  const std::int64_t rows =
      planOf(config.strategy).passRows(config.strategy, config.training.batch, grid.replicas);
  const JoinedForm joined = joinedForm(config.strategy);
  const double sums = joined.fits_exits ? 2.0 : joined.adds_exits ? 1.0 : 0.0; // of exits, per label value
  double most = 0.0;
  for (const StagePlan& stage : partition.stages)
    if (!stage.last())
      most = std::max({most, static_cast<double>(rows) * static_cast<double>(stage.outputs()),
                       sums * static_cast<double>(rows) * static_cast<double>(stage.labelValues())});
  return most;
}

/// With a single class there is nothing to distinguish.
void checkClasses(const Dataset& train) {
  const std::int32_t first = train.labels.front();
  const bool others = std::any_of(train.labels.begin(), train.labels.end(),
                                  [&](std::int32_t label) { return label != first; });
  if (!others)
    throw UserError("data: all " + std::to_string(train.size()) + " training samples are of class " +
                    std::to_string(first) + ", so there is nothing to learn");
}

/// Sums of gradients are sent in buckets, however large a layer is.
void checkMessages(const RunConfig& config, const Partition& partition, const GridPlan& grid) {
  if (largestActivation(config, partition, grid) < std::numeric_limits<int>::max()) return;
  throw UserError(
      "training/batch: a message would have 2^31 values or more; use smaller batches" +
      std::string(planOf(config.strategy).gradientsCross() ? ", more strategy/microbatches" : "") +
      " or smaller layers");
}

/// Warns if a folder is missing: it may exist on the nodes of the job only.
bool isHere(const std::string& key, const std::string& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder, ignored)) return true;
  Log::warning(key + ": this machine has no folder '" + folder + "'; the nodes of the job need it");
  return false;
}

/// Checks as the run does at its start whether files can be made in its folders, and the log that it repeats.
/// Room for all values is not reserved: other ranks may be on other disks.
void tryFiles(const RunConfig& config, const DataSets& sets, const Partition& partition, const GridPlan& grid,
              const std::string& scratch) {
  const std::int64_t samples = sets.train.size();
  const RunLength length = planRunLength(config, samples);
  const StrategyRules& rules = rulesOf(config.strategy);
  const auto folders = rules.folders(config, length, scratch);
  if (std::all_of(folders.begin(), folders.end(),
                  [](const auto& one) { return isHere(one.first, one.second); }))
    rules.checkFiles(config, length, samples, scratch);
  const OptimiserSection& optimiser = config.optimiser;
  const std::string folder = optimiser.offload_directory.empty() ? scratch : optimiser.offload_directory;
  const bool to_file =
      optimiser.offload == Offload::file &&
      std::any_of(partition.stages.begin(), partition.stages.end(), [&](const StagePlan& stage) {
        return stageMemory(config, partition, grid, stage.index).offloaded > 0;
      });
  if (to_file && isHere("optimiser/offload_directory", folder))
    StoredVector::takeRoom({optimiser.offload, folder}, 1);
}

/// The samples that do not train. `same`: is the test set taken from the validation set?
std::string heldOut(const DataSets& sets, bool same) {
  const std::size_t validation = sets.validation.size(), test = sets.test.size();
  const std::string text = std::to_string(validation) + " validation";
  if (!same) return text + ", " + std::to_string(test) + " test samples";
  if (test == validation) return text + " samples, which are also the test set,";
  return text + " samples, the first " + std::to_string(test) + " of which are also the test set,";
}

} // namespace

void checkStageCount(const RunConfig& config, int stages, int wanted) {
  if (wanted > stages) {
    throw UserError("--stages " + std::to_string(wanted) + ": the network has " + counted(stages, "stage"));
  }
  if (wanted == stages) return;
  planOf(config.strategy).checkEarlyEnd(config.strategy, wanted);
}

void checkExitWeights(const RunFacts& facts, const RunConfig& config, int stages, int wanted,
                      const std::string& path) {
  if (!joinedForm(config.strategy).fits_exits || stages == 1) return;
  const auto found = static_cast<int>(facts.exit_weights.size());
  if (found == 0 && wanted == stages)
    Log::warning(path +
                 ": has no fitted weights of exits, which only the end of a run stores; all are equal");
  else if (found != 0 && found != stages)
    throw UserError(path + ": has the weights of " + counted(found, "exit") + ", but the network has " +
                    counted(stages, "stage"));
}

void checkLabels(const Shape& output, const DataSets& sets) {
  const Dataset& used =
      sets.train.size() > 0 ? sets.train : sets.test; // an evaluation may need no training set
  const std::int64_t labels = used.labels_per_sample, positions = isSequence(output) ? output[0] : 1;
  if (labels == positions) return;
  throw UserError("network/layers: the network predicts " + std::to_string(positions) +
                  " classes per sample, but the data have " + std::to_string(labels) + " labels per sample");
}

void checkTraining(const RunConfig& config, const DataSets& sets, const Partition& partition,
                   const GridPlan& grid) {
  checkLength(config.run, planRunLength(config, sets.train.size()));
  checkClasses(sets.train);
  checkAugmentation(config.data, sets.shape);
  requireWorkForAll(config, grid.replicas);
  checkStatistics(config, partition, grid);
  checkMessages(config, partition, grid);
}

double largestMessage(const RunConfig& config, const Partition& partition, const GridPlan& grid) {
  double most = largestActivation(config, partition, grid);
  const std::int64_t rows =
      planOf(config.strategy).passRows(config.strategy, config.training.batch, grid.replicas);
  for (const StagePlan& stage : partition.stages) {
    if (grid.replicas > 1) most = std::max(most, static_cast<double>(stage.mostParameters()));
    if (grid.parts == 1) continue;
    const StagePlan own = partOfStage(stage, config.strategy, 0);
    for (const PartMessage& message : partMessages(own, 0, rows, 1, !stage.first())) // a byte per value
      most = std::max(most, static_cast<double>(message.bytes));
  }
  return most;
}

void dryRun(const RunConfig& deck, int ranks, const std::string& scratch) {
  Log::info(writeDeck(deck));
  const RunConfig config = effective(deck);
  // Files are checked as a whole. Random images need not be drawn, and may be more than this machine can
  // hold.
  const Need need = config.data.kind == DataKind::noise ? Need::labels_only : Need::everything;
  const DataSets sets = loadData(config.data, config.run.seed, need);
  const Partition partition = planPartition(config, planNetwork(config.network, sets.shape, sets.classes),
                                            sets.classes, sizeof(Real));
  checkLabels(partition.stages.back().layers.back().out, sets);
  const GridPlan grid = planGrid(config.strategy, partition, ranks);
  checkTraining(config, sets, partition, grid);
  const RunLength count = planRunLength(config, sets.train.size());
  Log::info("# data: " + std::to_string(sets.train.size()) + " training, " +
            heldOut(sets, config.data.testsOnValidationSet()) + " of " + joined(sets.shape, " x ") +
            " values, " + counted(sets.classes, "class") + "; " + counted(count.steps, "step") +
            " per stage");
  showPartition(deck, config, partition, grid, deviceKind(chooseMessagePaths(config)));
  if (const auto predicted = predictedCost(config, sets, partition, grid)) {
    Log::info("# " + costLine(*predicted));
    for (const std::string& note : predicted->notes) Log::warning(note);
  }
  if (const auto forecast = predictedRun(config, sets, grid))
    for (const std::string& line : forecast->lines()) Log::info("# " + line);
  tryFiles(config, sets, partition, grid, scratch);
  Log::info("# dry run: nothing was trained");
}

} // namespace partita
