#include "partita/train/setup.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/link.hpp"
#include "partita/comm/rank_places.hpp"
#include "partita/config/text.hpp"
#include "partita/core/available_memory.hpp"
#include "partita/core/log.hpp"
#include "partita/data/load_data.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/strategy.hpp"
#include "partita/train/check_plans.hpp"
#include "partita/train/node_data.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace partita {

static_assert(!std::is_nothrow_destructible<Setup>::value, "RanksLost leaves the destructor of the watchdog");

RunConfig withoutIdlePrefetch(RunConfig config, const Communicator& world) {
  const bool core_to_spare = threadsForThisRank(world) > ExecSpace().concurrency();
  if (device_is_host && !core_to_spare) config.data.prefetch = 0;
  return config;
}

namespace {

/// A run without training has no state to offload, each rank has whole stages, and large batches would only
/// need memory.
RunConfig forPurpose(RunConfig config, bool learns, const std::string& scratch) {
  OptimiserSection& optimiser = config.optimiser;
  if (!learns) {
    constexpr std::int64_t enough_rows = 1024;
    StrategySection& strategy = config.strategy;
    optimiser.offload = Offload::none;
    strategy.parts = strategy.pipeline.microbatches = 1;
    config.training.batch =
        std::min(config.training.batch, enough_rows * std::max<std::int64_t>(1, strategy.replicas));
    planOf(strategy).whenTrained(strategy);
  }
  if (optimiser.offload_directory.empty()) optimiser.offload_directory = scratch;
  return config;
}

/// What a rank will hold, in bytes.
struct RankMemory {
  /// `elsewhere`: number of ranks on other nodes.
  RankMemory(const RunConfig& config, const Plans& plans, const Communicator& world, int elsewhere) {
    const int rank = world.rank();
    if (!plans.grid.ownsStages(rank)) {
      parameters = total =
          rulesOf(config.strategy).bytesWithoutStage(config, plans.partition, world.size(), elsewhere);
      return;
    }
    const DeviceKind device = deviceKind(chooseMessagePaths(config));
    for (const StagePlan& stage : plans.partition.stages) {
      if (plans.grid.groupOf(stage.index) != plans.grid.group(rank)) continue;
      const StageMemory memory =
          partMemory(config, plans.partition, plans.grid, stage.index, plans.grid.part(rank), device);
      parameters += memory.parameters;
      total += memory.total();
      offloaded += memory.offloaded;
    }
  }
  std::int64_t parameters = 0, total = 0, offloaded = 0; ///< bytes
};

/// Reserves room for the state of the optimiser: all ranks should fail now and together rather than when an
/// optimiser is made, which for some stages and for a recovery is hours later.
std::shared_ptr<void> roomForOffload(const RunConfig& config, const RankMemory& memory,
                                     const Communicator& world) {
  std::shared_ptr<void> room;
  collectively(world,
               [&] { room = StoredVector::takeRoom(placementOf(config.optimiser), memory.offloaded); });
  return room;
}

/// What this rank would need with a smaller window of a pipeline, for a message; empty if that is not less.
std::string needWithLimit(RunConfig config, const Plans& plans, const Communicator& world,
                          const RankMemory& own) {
  const StrategySection& strategy = config.strategy;
  const std::int64_t limit = smallerLimit(strategy, plans.grid.groups);
  if (limit == 0 || !planOf(strategy).usesMicrobatches(strategy)) return "";
  config.strategy.pipeline.limit = limit;
  const std::int64_t less = RankMemory(config, plans, world, 0).total;
  if (less >= own.total) return "";
  return "; with strategy/limit=" + std::to_string(limit) + " it needs " +
         formatBytes(static_cast<double>(less));
}

/// If device memory is host memory, checks what the ranks of a node will need before any of it is allocated:
/// a system that has overcommitted its memory kills the job without a message. `way_out` ends the message.
void checkMemory(const RankMemory& own, const Communicator& world, const Communicator& node, bool learns,
                 const std::string& way_out) {
  if (!device_is_host) return;
  const auto needed = static_cast<double>(learns ? own.total : own.parameters);
  std::vector<double> of_node{needed};
  node.sum(of_node);
  collectively(world, [&] {
    const double own_room = availableMemory(), room = availableOnNode();
    const bool fits = needed <= own_room;
    if (fits && of_node[0] <= room) return;
    const std::string others = fits ? " and the ranks of its node " + formatBytes(of_node[0]) : "";
    throw UserError("not enough memory: this rank needs " + formatBytes(needed) + others + ", " +
                    formatBytes(static_cast<double>(own.parameters)) + " of it for parameters (see -n); " +
                    formatBytes(fits ? room : own_room) + " is free" + way_out);
  });
}

/// Tells all ranks what the first rank of the grid, which has the features, knows of them: how they were
/// standardised, and its warnings from number `first` on, which rank 0 prints.
void shareKnowledge(const Communicator& world, Plans& plans, std::size_t first) {
  const int knows = plans.grid.first_rank;
  broadcast(world, plans.sets.shift, knows);
  broadcast(world, plans.sets.scale, knows);
  if (knows == 0) return;
  const std::vector<std::string> own = Log::warnings();
  const std::vector<std::string> recent(own.begin() + static_cast<std::ptrdiff_t>(first), own.end());
  for (const std::string& line : split(broadcast(world, joined(recent, "\n"), knows), '\n'))
    if (world.rank() == 0 && !line.empty()) Log::warnOnce(line);
}

Plans makePlans(const Communicator& world, const RunConfig& config, bool learns,
                const TrainedInput* trained) {
  const std::size_t warnings = Log::warnings().size();
  const Communicator node = world.node();
  Plans plans(config, world, node, learns, trained);
  shareKnowledge(world, plans, warnings);
  const RankMemory memory(config, plans, world, world.size() - node.size());
  checkMemory(memory, world, node, learns, learns ? needWithLimit(config, plans, world, memory) : "");
  plans.offload_room = roomForOffload(config, memory, world);
  return plans;
}

std::unique_ptr<SharedWindow> makeWindow(const RunConfig& config, const Partition& partition,
                                         const Grid& grid) {
  const std::int64_t bytes = rulesOf(config.strategy).windowBytes(config, partition, grid.world().size());
  return bytes == 0 ? nullptr : std::make_unique<SharedWindow>(grid.world(), bytes);
}

GivenMemory checkedMemory(const RunConfig& config, const Partition& partition, const Grid& grid,
                          const SharedWindow* window) {
  GivenMemory memory;
  collectively(grid.world(),
               [&] { memory = rulesOf(config.strategy).givenMemory(config, partition, grid, window); });
  return memory;
}

/// Seconds that ranks may wait for one another before a message counts as lost: a tenth of `run/watchdog`,
/// from 5 s to 10 minutes. Networks delay messages by up to half a minute when a link or its route changes.
double stuckLimit(const RunConfig& config) {
  return std::clamp(static_cast<double>(config.run.watchdog) / 10.0, 5.0, 600.0);
}

/// Ends a job that will not end by itself. Reading the data may take any time: if some ranks read for
/// minutes, the others only report it.
Watchdog::Limits setUpLimits(const Communicator& world, const RunConfig& config) {
  Watchdog::Limits limits;
  const auto patience = static_cast<double>(config.run.watchdog);
  limits.warning = std::min(60.0, patience);
  limits.silence = 0.0;
  limits.stuck = stuckLimit(config) + 2.0 * world.size() * linkModel().latency;
  if (config.run.watchdog == 0) limits.warning = limits.stuck = std::numeric_limits<double>::infinity();
  return limits;
}

/// Ranks that seem to wait for one another may wait for a message under way, so the limit includes the time
/// of the largest one.
Watchdog::Limits watchdogLimits(const RunConfig& config, const Plans& plans) {
  constexpr double slow_network = 1e8; // bytes/s
  const double bytes = largestMessage(config, plans.partition, plans.grid) * sizeof(Real);
  const LinkModel& links = linkModel();
  Watchdog::Limits limits;
  limits.silence = static_cast<double>(config.run.watchdog);
  limits.stuck =
      stuckLimit(config) + bytes / slow_network + 2.0 * plans.grid.ranks * links.latency + links.delay;
  if (links.bandwidth > 0.0) limits.stuck += 2.0 * bytes / links.bandwidth; // a sum sends twice the values
  if (config.run.watchdog == 0) limits.stuck = std::numeric_limits<double>::infinity();
  return limits;
}

} // namespace

Plans::Plans(const RunConfig& config, const Communicator& world, const Communicator& node, bool learns,
             const TrainedInput* trained) {
  const auto seed = static_cast<std::uint64_t>(config.data.seed.value_or(config.run.seed));
  const auto load = [&](Need need) { return loadData(config.data, seed, need, trained); };
  // The owner of the first stage follows from the network, whose input follows from the data: labels and
  // shapes are loaded first, then the features only where they are needed.
  sets = loadOnNode(world, &node, [&] { return load(Need::labels_only); });
  collectively(world, [&] {
    partition = planPartition(config, planNetwork(config.network, sets.shape, sets.classes), sets.classes,
                              sizeof(Real));
    checkLabels(partition.stages.back().layers.back().out, sets);
    grid = planGrid(config.strategy, partition, world.size());
    if (learns) checkTraining(config, sets, partition, grid);
  });
  const bool first_stage = grid.ownsStages(world.rank()) && grid.group(world.rank()) == 0;
  if (first_stage) sets = {}; // makes room
  const Communicator alike = node.split(first_stage ? 1 : 0, node.rank());
  DataSets whole = loadOnNode(world, first_stage ? &alike : nullptr, [&] { return load(Need::everything); });
  if (first_stage) sets = std::move(whole);
}

Setup::Setup(const Communicator& world, const RunConfig& deck, bool learns, const std::string& scratch,
             const TrainedInput* trained)
    : config(forPurpose(withoutIdlePrefetch(effective(deck), world), learns, scratch)),
      watchdog(world, setUpLimits(world, config)), plans(makePlans(world, config, learns, trained)),
      grid(world, plans.grid, chooseMessagePaths(config)), window(makeWindow(config, plans.partition, grid)),
      stages(makeLocalStages(config, plans.partition, grid, plans.sets.classes,
                             checkedMemory(config, plans.partition, grid, window.get()))) {
  world.barrier(); // with the patience of a set-up
  watchdog.restart(watchdogLimits(config, plans));
}

} // namespace partita
