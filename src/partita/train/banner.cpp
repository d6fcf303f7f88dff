#include "partita/train/banner.hpp"

#include "partita/comm/nccl.hpp"
#include "partita/config/names.hpp"
#include "partita/config/text.hpp"
#include "partita/core/log.hpp"
#include "partita/data/hdf5.hpp"
#include "partita/kernels/attend.hpp"
#include "partita/kernels/convolve.hpp"
#include "partita/kernels/products.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/share.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>

namespace partita {

namespace {

/// Measures products, and adds their rates to `rates`.
std::string gemmText(const ExecSpace& space, std::map<Precision, double>& rates) {
  // Small enough to cost milliseconds, large enough to show whether vendor kernels are used.
  constexpr int extent = device_is_host ? 512 : 4096;
  const auto measured = [&](Precision precision) {
    const double rate = measureGemmRate(space, extent, 5, precision);
    rates[precision] = 1e9 * rate;
    return rate;
  };
  std::string shown =
      formatted("%s, %.0f GFLOP/s measured (%dx%d, %s)", gemmPath().c_str(), measured(Precision::single),
                extent, extent, counted(ExecSpace().concurrency(), "thread").c_str());
  for (const Precision half : {Precision::bf16, Precision::fp16}) {
    const std::string path = gemmPath(half);
    shown += multipliesDirectly(half)
                 ? formatted("; %s by %s, %.0f GFLOP/s", nameOf(half).c_str(), path.c_str(), measured(half))
                 : "; " + nameOf(half) + " is " + path;
  }
  return shown + "; convolutions by " + convolutionPath() + "; 16-bit attention by " + attentionPath();
}

std::string bannerLine(const std::string& name, const std::string& value) {
  return formatted("  %-14s", name.c_str()) + value;
}

std::string describe(MessagePath path) {
  return path == MessagePath::direct ? "direct" : "staged through host memory";
}

/// One line per place: where each rank computes.
void showPlaces(const std::vector<RankPlace>& places) {
  constexpr std::size_t most_warnings = 4;
  for (const std::string& line : placeLines(places)) Log::info(bannerLine("", line));
  const std::vector<std::string> warnings = placeWarnings(places);
  for (std::size_t i = 0; i < std::min(warnings.size(), most_warnings); ++i) Log::warning(warnings[i]);
  if (warnings.size() > most_warnings) {
    Log::warning("and " + std::to_string(warnings.size() - most_warnings) + " more such warnings");
  }
}

/// How many ranks add up gradients by NCCL, if some could. Collective.
std::string sumsByNccl(const Grid& grid) {
  const GridPlan& plan = grid.plan();
  const std::int64_t built = grid.world().total(nccl::version().empty() ? 0 : 1),
                     used = grid.world().total(grid.paths().nccl ? 1 : 0);
  if (built == 0 || plan.replicas * plan.parts == 1) return "";
  if (used == 0) return ", sums of gradients by MPI (NCCL needs a separate device for each rank)";
  return ", sums of gradients by NCCL" + (used == plan.ranks ? "" : " on " + counted(used, "rank"));
}

} // namespace

std::string showMessagePaths(const Grid& grid) {
  const MessagePaths& paths = grid.paths();
  std::string text = describe(paths.messages);
  if (paths.reductions != paths.messages) text += ", sums of gradients " + describe(paths.reductions);
  text += " (" + paths.reason + ")";
  if (paths.wire != Precision::single) text += ", 16-bit numbers while training (" + nameOf(paths.wire) + ")";
  if (paths.wire != paths.sums) text += ", sums of gradients in " + nameOf(paths.sums);
  text += sumsByNccl(grid);
  const std::int64_t staged = grid.world().total(paths.messages == MessagePath::staged ? 1 : 0);
  if (staged > 0 && staged < grid.world().size()) text += ", staged on " + counted(staged, "rank");
  Log::info(bannerLine("messages", text));
  return text;
}

Banner showBanner(const ExecSpace& space, const Communicator& world, const std::string& command_line) {
  Banner banner;
  const std::string gemm = world.rank() == 0 ? gemmText(space, banner.product_rates) : "";
  std::string mpi = MpiEnvironment::library();
  if (!nccl::version().empty()) mpi += "; NCCL " + nccl::version() + " for sums of gradients";
  Provenance& provenance = banner.provenance;
  provenance = makeProvenance(mpi, hdf5Version(), gemm, command_line);
  Log::info("Partita " + provenance.front().second + ": training partitioned networks, " +
            counted(world.size(), "rank"));
  banner.places = gatherPlaces(world);
  provenance.emplace_back("devices", summarisePlaces(banner.places));
  for (std::size_t i = 1; i < provenance.size(); ++i)
    Log::info(bannerLine(provenance[i].first, provenance[i].second));
  showPlaces(banner.places);
  for (const std::string& advice :
       {blasInfo().advice, compilerAdvice(), productAdvice(), bindingAdvice(world)})
    if (!advice.empty()) Log::warning(advice);
  return banner;
}

namespace {

/// A sum that is rounded after each term stops growing when the terms are smaller than its last digit.
void warnOfManyMicrobatches(const RunConfig& config, const GridPlan& grid) {
  if (config.run.precision == Precision::single || !planOf(config.strategy).usesMicrobatches(config.strategy))
    return;
  const std::int64_t most = config.run.precision == Precision::bf16 ? 128 : 1024,
                     share = largestShare(config.training.batch, grid.replicas),
                     count = microbatchesOf(config.strategy, share);
  if (count > most)
    Log::warning("strategy/microbatches: the gradients of " + std::to_string(count) +
                 " microbatches are added up in " + nameOf(config.run.precision) +
                 ", which loses much of the sum of more than " + std::to_string(most));
}

/// Lines for what the table does not show: 16-bit numbers, and offloaded state.
void showNumbers(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                 const DeviceKind& device) {
  if (config.run.precision != Precision::single)
    Log::info("# 16-bit numbers (" + nameOf(config.run.precision) +
              "); their master copies count as optimiser state");
  warnOfManyMicrobatches(config, grid);
  if (lacksProducts(config.run.precision))
    Log::warning(
        "run/precision: this processor multiplies bf16 numbers faster than floats, but the build has no "
        "oneDNN and converts them to float; install libdnnl-dev (or oneDNN) and build again");
  if (config.optimiser.offload == Offload::none) return;
  RunConfig without = config;
  without.optimiser.offload = Offload::none;
  std::int64_t most = 0, needed = 0, needed_without = 0;
  for (const StagePlan& stage : partition.stages) {
    const StageMemory memory = stageMemory(config, partition, grid, stage.index, device);
    most = std::max(most, memory.offloaded);
    needed = std::max(needed, memory.total());
    needed_without =
        std::max(needed_without, stageMemory(without, partition, grid, stage.index, device).total());
  }
  Log::info(std::string("# optimiser state ") +
            (config.optimiser.offload == Offload::host ? "in host memory" : "in files") + ", up to " +
            formatBytes(static_cast<double>(most)) + " per stage, in buckets of " +
            formatCount(static_cast<double>(config.optimiser.offload_bucket)) + " parameters");
  if (needed > needed_without)
    Log::warning("optimiser/offload: a stage needs " + formatBytes(static_cast<double>(needed)) +
                 " of memory, but without offload only " + formatBytes(static_cast<double>(needed_without)) +
                 (config.optimiser.offload == Offload::host && device.host
                      ? "; use file or none"
                      : "; use none, or a smaller optimiser/offload_bucket"));
}

/// A deck that names no kind trains the whole network, even if it says how to cut it, and one that sets no
/// parts divides no layer.
void noteUnusedKeys(const StrategySection& strategy, const GridPlan& grid) {
  const bool cut = strategy.stages != StrategySection().stages || !strategy.cuts.empty();
  if (cut && grid.stages < strategy.stages)
    Log::info("# strategy/stages and strategy/cuts have no effect with strategy/kind '" +
              nameOf(strategy.kind) + "'");
  if (grid.parts == 1 && strategy.parts_grid.values.size() > 1)
    Log::info("# strategy/parts_grid has no effect with strategy/parts 1");
}

} // namespace

void showPartition(const RunConfig& deck, const RunConfig& config, const Partition& partition,
                   const GridPlan& grid, const DeviceKind& device) {
  const std::string parts =
      grid.parts == 1 ? "" : " x " + counted(grid.parts, "part") + " (" + nameOf(config.strategy.split) + ")";
  Log::info("# " + nameOf(config.strategy.kind) + ", " + counted(grid.stages, "stage") + " x " +
            counted(grid.replicas, "replica") + parts + " on " + counted(grid.ranks, "rank"));
  noteUnusedKeys(deck.strategy, grid);
  Log::info("# rank stage layers      values  FLOP/sample  parameters   gradients   optimiser activations"
            "     buffers");
  for (const StagePlan& stage : partition.stages) {
    const StageMemory memory = stageMemory(config, partition, grid, stage.index, device);
    const std::string layers = std::to_string(stage.firstLayer()) + "-" + std::to_string(stage.lastLayer());
    const double flops = partition.local[stage.index].flops;
    Log::info(formatted("# %4d %5d %6s %11lld %12s %11s %11s %11s %11s %11s",
                        grid.rankAt(grid.groupOf(stage.index), 0), stage.index + 1, layers.c_str(),
                        static_cast<long long>(stage.parameters()), formatCount(flops).c_str(),
                        formatBytes(static_cast<double>(memory.parameters)).c_str(),
                        formatBytes(static_cast<double>(memory.gradients)).c_str(),
                        formatBytes(static_cast<double>(memory.optimiser)).c_str(),
                        formatBytes(static_cast<double>(memory.activations)).c_str(),
                        formatBytes(static_cast<double>(memory.buffers + memory.evaluation)).c_str()));
  }
  showNumbers(config, partition, grid, device);
  const PlanNotes notes = planOf(config.strategy).notes(config, partition, grid, device.real_bytes);
  for (const std::string& note : notes.lines) Log::info(note);
  for (const std::string& warning : notes.warnings) Log::warning(warning);
}

} // namespace partita
