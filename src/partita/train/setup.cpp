#include "partita/train/setup.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/link.hpp"
#include "partita/comm/threads.hpp"
#include "partita/plan/effective.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/run_length.hpp"

namespace partita {

namespace {

/// A thread that makes batches ahead helps where it has a core to itself, and costs where it takes turns with
/// the rank's own.
RunConfig withoutIdlePrefetch(RunConfig config, const Communicator& world) {
  const bool core_to_spare = threadsForThisRank(world) > ExecSpace().concurrency();
  if (device_is_host && !core_to_spare) config.data.prefetch = 0;
  return config;
}

/// Who learns nothing has no state to keep elsewhere.
RunConfig withOffload(RunConfig config, bool learns, const std::string& scratch) {
  OptimiserSection& optimiser = config.optimiser;
  if (!learns) optimiser.offload = Offload::none;
  if (optimiser.offload_directory.empty()) optimiser.offload_directory = scratch;
  return config;
}

/// Better told now, by all ranks alike, than when the optimiser is made.
void checkOffload(const RunConfig& config, const Communicator& world) {
  const OptimiserSection& optimiser = config.optimiser;
  if (optimiser.offload != Offload::file) return;
  collectively(world, [&] {
    StoredVector({optimiser.offload, optimiser.offload_directory}, "partita::Setup::probe", 1);
  });
}

Plans makePlans(const Communicator& world, const RunConfig& config, bool learns) {
  checkOffload(config, world);
  std::unique_ptr<Plans> plans;
  collectively(world, [&] {
    linkModel(); // a mistake in its variable is told here
    plans = std::make_unique<Plans>(config, world, learns);
  });
  return std::move(*plans);
}

Watchdog::Limits watchdogLimits(const RunConfig& config) {
  Watchdog::Limits limits;
  limits.silence = static_cast<double>(config.run.watchdog);
  return limits;
}

} // namespace

void checkLabels(const Partition& partition, const DataSets& sets) {
  const auto labels = static_cast<std::int64_t>(sets.train.labels_a_sample);
  const std::int64_t positions = partition.stages.back().positions;
  if (labels == positions) return;
  throw UserError("network/layers: the network tells " + std::to_string(positions) +
                  " classes a sample, but the data have " + std::to_string(labels) + " labels a sample");
}

void checkTraining(const RunConfig& config, const DataSets& sets, const GridPlan& grid) {
  planRunLength(config, sets.train.size());
  if (config.training.batch >= grid.replicas) return;
  throw UserError("training/batch: a batch of " + std::to_string(config.training.batch) +
                  " samples leaves some of the " + std::to_string(grid.replicas) + " replicas without work");
}

Plans::Plans(const RunConfig& config, const Communicator& world, bool learns) {
  const auto seed = static_cast<std::uint64_t>(config.run.seed);
  // Who owns the first stage follows from the network, whose input follows from the data: labels and shapes
  // come first, the features only where they are needed.
  sets = loadData(config.data, seed, Need::labels_only);
  partition = planPartition(config, planNetwork(config.network, sets.shape, sets.classes), sets.classes,
                            sizeof(Real));
  checkLabels(partition, sets);
  grid = planGrid(config.strategy, partition, world.size());
  if (learns) checkTraining(config, sets, grid);
  if (grid.group(world.rank()) == 0) sets = loadData(config.data, seed, Need::everything);
}

Setup::Setup(const Communicator& world, const RunConfig& deck, bool learns, const std::string& scratch)
    : config(withOffload(withoutIdlePrefetch(effective(deck), world), learns, scratch)),
      plans(makePlans(world, config, learns)),
      grid(world, plans.grid, chooseMessagePaths(config.run.device_aware_mpi, config.strategy.wire)),
      stages(makeLocalStages(config, plans.partition, grid, plans.sets.classes)),
      watchdog(world, watchdogLimits(config)) {}

} // namespace partita
