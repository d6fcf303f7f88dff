#include "partita/comm/agree.hpp"
#include "partita/comm/rank_places.hpp"
#include "partita/config/deck.hpp"
#include "partita/config/names.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/available_memory.hpp"
#include "partita/core/log.hpp"
#include "partita/core/loops.hpp"
#include "partita/data/load_data.hpp"
#include "partita/io/earlier_output.hpp"
#include "partita/io/output_file.hpp"
#include "partita/kernels/products.hpp"
#include "partita/plan/cost/cluster_file.hpp"
#include "partita/plan/cost/cost_model.hpp"
#include "partita/plan/cost/typical.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/train/banner.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "bench_model.hpp"
#include "calibrate_kernels.hpp"
#include "calibrate_links.hpp"
#include "commands.hpp"
#include "plan_task.hpp"

namespace partita {

namespace {

/// The cost of offload is predicted separately.
constexpr const char* without_offload = "optimiser/offload=none";

/// The largest batch of a deck that is timed.
std::int64_t largestTimedBatch(const RunConfig& deck, std::int64_t samples) {
  const auto batches = planOf(deck.strategy).timedBatches(deck);
  return std::max(deck.training.batch, batches ? std::min(batches->second, samples) : 0);
}

/// Throws UserError if a deck has no whole batch, or if on hosts its network, which every rank trains as a
/// whole, does not fit into memory. Collective.
void checkDecks(const Communicator& world, const std::vector<std::string>& decks) {
  const int ranks = world.node().size();
  collectively(world, [&] {
    for (const std::string& path : decks) {
      const PlanTask plan = planTask(path, {without_offload}, Cluster{});
      requireWholeBatch(plan);
      if (!device_is_host) continue;
      const Program& program = *plan.task.program;
      const RunConfig deck = effective(program.deck());
      const std::int64_t batch = largestTimedBatch(deck, static_cast<std::int64_t>(plan.sets.train.size()));
      ProgramRun run = program.whole(batch);
      run.config.checkpoint.every = 0; // timed steps write none
      const double needed = run.memory(), room = std::min(availableMemory(), availableOnNode() / ranks);
      if (needed > room)
        throw UserError(path + ": a rank that trains the whole network needs " + formatBytes(needed) +
                        " of memory, but each rank here has only " + formatBytes(room));
    }
  });
}

/// Percent by which the time of one product varies on the rank with the largest variation: the 90th
/// percentile over the minimum. All ranks compute at once, as in training.
double noisePercent(const ExecSpace& space, const Communicator& world) {
  constexpr int size = 512;
  const bool oversubscribed = isOversubscribed(world);
  std::vector<double> seconds(oversubscribed ? 10 : 30);
  world.barrier();
  for (double& one : seconds) one = secondsPerGflop(space, size, 1, oversubscribed);
  std::sort(seconds.begin(), seconds.end());
  return world.maximum(100.0 * (seconds[seconds.size() * 9 / 10] / seconds.front() - 1.0));
}

struct AddValues {
  Real* sum;
  const Real* other;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { sum[i] += other[i]; }
};

/// Seconds per byte of an addition of vectors larger than any cache, with all ranks at work.
double secondsPerReducedByte(const ExecSpace& space, const Communicator& world, bool quick) {
  const std::int64_t size = std::int64_t{1} << (quick ? 18 : 24);
  const Vector sum("partita::calibrate::sum", size), other("partita::calibrate::other", size);
  const double seconds = leastSeconds(world, [&] {
    forEachValue(space, "partita::calibrate::add", size, AddValues{sum.data(), other.data()});
    fence(space, "partita::calibrate::add");
  });
  return seconds / static_cast<double>(size * static_cast<std::int64_t>(sizeof(Real)));
}

/// FLOP/s of a large product while all ranks compute. 0 if a rank has to convert the numbers first: that time
/// does not grow with the FLOPs.
double productRate(const ExecSpace& space, const Communicator& world, bool quick, Precision precision) {
  const bool direct = precision == Precision::single || multipliesDirectly(precision);
  if (world.maximum(std::int64_t{direct ? 0 : 1}) > 0) return 0.0;
  const bool oversubscribed = isOversubscribed(world);
  world.barrier();
  const int size = (quick ? 256 : 1024) * (device_is_host ? 1 : 4); // as in bench
  const double seconds = secondsPerGflop(space, size, quick ? 2 : 7, oversubscribed, precision);
  return 1e9 / secondsOfRanks(world, seconds, oversubscribed);
}

void measureProducts(const ExecSpace& space, const Communicator& world, bool quick, Cluster& cluster) {
  std::string line;
  for (const auto& [precision, rate] : {std::pair{Precision::single, &cluster.flops},
                                        {Precision::bf16, &cluster.bf16_flops},
                                        {Precision::fp16, &cluster.fp16_flops}}) {
    *rate = productRate(space, world, quick, precision);
    if (*rate > 0.0)
      line += (line.empty() ? "  product: " : "; in " + nameOf(precision) + " ") +
              formatted("%.1f GFLOP/s", 1e-9 * *rate) + (line.empty() ? " per rank" : "");
  }
  Log::info(line);
}

/// Trains the whole network of a deck on every rank at once. The update is timed separately, because it does
/// not shrink with the samples of a rank.
NetworkTiming timeNetwork(const ExecSpace& space, const Communicator& world, const BenchSetting& setting,
                          const std::string& path, bool quick, const Cluster& cluster) {
  std::optional<BenchModel> model;
  collectively(world, [&] {
    const RunConfig deck = effective(loadDeck(path, {}));
    DataSets sets = loadData(deck.data, deck.run.seed, Need::everything);
    model.emplace(deck, std::move(sets), setting.with(without_offload));
  });
  const std::string name = deckName(path);
  world.barrier();
  const StepTimes times = timeSteps(space, *model, quick);
  const bool oversubscribed = isOversubscribed(world);
  const auto of_ranks = [&](double seconds) { return secondsOfRanks(world, seconds, oversubscribed); };
  const double step = of_ranks(times.step), update = of_ranks(times.update());
  Log::info(
      formatted("  %s: %.3f ms per step, %.3f ms of it for updates", name.c_str(), 1e3 * step, 1e3 * update));
  const CostModel costs(costTask(model->config, model->sets.shape, model->sets.classes, 1), cluster,
                        CostMode::exact);
  const double passes = of_ranks(times.step - times.update()) / (1.0 + costs.recomputedShare());
  NetworkTiming network = networkOf(costs.task());
  network.deck = name;
  network.batch = model->config.training.batch;
  network.seconds_per_sample = passes / static_cast<double>(network.batch);
  if (network.parameters > 0) network.seconds_per_update = update / static_cast<double>(network.parameters);
  return network;
}

/// The layers of a deck alone, whole and divided.
void timeKernels(KernelTimer& timer, const Communicator& world, const std::string& path) {
  RunConfig deck;
  std::vector<LayerPlan> layers;
  collectively(world, [&] {
    deck = effective(loadDeck(path, {}));
    const DataSets sets = loadData(deck.data, deck.run.seed, Need::labels_only);
    layers = planNetwork(deck.network, sets.shape, sets.classes);
  });
  timer.timeDeck(deck, layers);
}

/// How fast values are added and copied, and how kernels, messages and the ranks of a node slow each other
/// down.
void measureSharing(const ExecSpace& space, const Communicator& world, bool quick, Cluster& cluster) {
  cluster.seconds_per_reduced_byte = secondsPerReducedByte(space, world, quick);
  cluster.seconds_per_copied_byte = secondsPerCopiedByte(space, world, quick);
  cluster.concurrency = measureConcurrency(space, world, quick);
  cluster.overlap = measureOverlap(space, world, quick);
}

void showSharing(const Cluster& cluster) {
  Log::info(formatted(
      "  sums: %s/s per rank; copies: %s/s per rank; a product takes %.2f times as long with all ranks "
      "of a node at work; computing hides %.0f %% of messages",
      formatBytes(1.0 / cluster.seconds_per_reduced_byte).c_str(),
      formatBytes(1.0 / cluster.seconds_per_copied_byte).c_str(), cluster.concurrency.back().factor,
      100.0 * cluster.overlap));
}

/// The folder of the file that will have the description. The current one if there is no such file.
std::string folderOfFile(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool special = fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
  return path.empty() || special ? "." : outputFolder(path);
}

/// Files are written where the description is.
void measureOffload(const Communicator& world, const CalibrateArguments& arguments, Cluster& cluster) {
  cluster.device = !device_is_host;
  cluster.host_bandwidth = offloadBandwidth(world, Offload::host, "", arguments.quick);
  cluster.file_bandwidth =
      offloadBandwidth(world, Offload::file, folderOfFile(arguments.output), arguments.quick);
  Log::info("  offloaded state moves at " + formatBytes(cluster.host_bandwidth) +
            "/s from host memory and at " + formatBytes(cluster.file_bandwidth) + "/s from files");
}

/// What each sweep measures: layers, whole networks, and the speed of ranks that share a node.
Cluster sweepDecks(const ExecSpace& space, const Communicator& world, const BenchSetting& setting,
                   const CalibrateArguments& arguments, Cluster cluster) {
  measureSharing(space, world, arguments.quick, cluster);
  KernelTimer timer(space, world, arguments.quick);
  for (const std::string& deck : arguments.decks) timeKernels(timer, world, deck);
  timer.timeCommon();
  cluster.kernels = timer.take();
  for (const std::string& deck : arguments.decks)
    cluster.networks.push_back(timeNetwork(space, world, setting, deck, arguments.quick, cluster));
  return cluster;
}

/// The median of one number of each sweep.
template <class Number>
double medianOf(const std::vector<Cluster>& sweeps, const Number& number) {
  std::vector<double> values;
  values.reserve(sweeps.size());
  for (const Cluster& sweep : sweeps) values.push_back(number(sweep));
  return typical(Typical::median, values);
}

/// Medians of several sweeps: other programs on these cores often compute for a second, but seldom whenever
/// the same layer is timed.
void measureDecks(const ExecSpace& space, const Communicator& world, const BenchSetting& setting,
                  const CalibrateArguments& arguments, Cluster& cluster, std::vector<double>& noise) {
  const int count = arguments.quick ? 1 : 3;
  std::vector<Cluster> sweeps;
  for (int sweep = 1; sweep <= count; ++sweep) {
    Log::info("  sweep " + std::to_string(sweep) + " of " + std::to_string(count));
    sweeps.push_back(sweepDecks(space, world, setting, arguments, cluster));
    noise.push_back(noisePercent(space, world));
  }
  cluster = sweeps.front();
  for (std::size_t i = 0; i < cluster.kernels.size(); ++i) {
    cluster.kernels[i].forward =
        medianOf(sweeps, [i](const Cluster& sweep) { return sweep.kernels[i].forward; });
    cluster.kernels[i].backward =
        medianOf(sweeps, [i](const Cluster& sweep) { return sweep.kernels[i].backward; });
  }
  double updates = 0.0, parameters = 0.0;
  for (std::size_t i = 0; i < cluster.networks.size(); ++i) {
    NetworkTiming& network = cluster.networks[i];
    network.seconds_per_sample =
        medianOf(sweeps, [i](const Cluster& sweep) { return sweep.networks[i].seconds_per_sample; });
    network.seconds_per_update =
        medianOf(sweeps, [i](const Cluster& sweep) { return sweep.networks[i].seconds_per_update; });
    parameters += static_cast<double>(network.parameters);
    updates += static_cast<double>(network.parameters) * network.seconds_per_update;
  }
  if (parameters > 0.0) cluster.seconds_per_update = updates / parameters;
  for (std::size_t i = 0; i < cluster.concurrency.size(); ++i)
    cluster.concurrency[i].factor =
        medianOf(sweeps, [i](const Cluster& sweep) { return sweep.concurrency[i].factor; });
  for (double Cluster::*number :
       {&Cluster::seconds_per_reduced_byte, &Cluster::seconds_per_copied_byte, &Cluster::overlap})
    cluster.*number = medianOf(sweeps, [number](const Cluster& sweep) { return sweep.*number; });
  Log::info("  kernels: " + counted(static_cast<std::int64_t>(cluster.kernels.size()), "shape") +
            " of layers");
  showSharing(cluster);
}

/// Seconds of a training step of this many samples on this rank, while all ranks but rank 0 train: that one
/// waits, as it does in training.
double stepOf(const ExecSpace& space, const Communicator& world, const RunConfig& deck, std::int64_t batch,
              const BenchSetting& setting, bool quick) {
  std::optional<BenchModel> model;
  collectively(world, [&] {
    const BenchSetting sized{
        setting.self,
        {"strategy/kind=joint", "run/decisions=false", "training/batch=" + std::to_string(batch)}};
    model.emplace(deck, loadData(deck.data, deck.run.seed, Need::everything), sized);
  });
  world.barrier();
  return world.rank() == 0 ? 0.0 : timeSteps(space, *model, quick).step;
}

/// For a deck whose ranks are not in step: overhead and speed of each, by the steps of two batches. Rank 0,
/// which coordinates, has none.
void timeWorkers(const ExecSpace& space, const Communicator& world, const BenchSetting& setting,
                 const std::string& path, bool quick, Cluster& cluster) {
  const RunConfig deck = effective(loadDeck(path, {}));
  const auto batches = planOf(deck.strategy).timedBatches(deck);
  if (!batches) return;
  auto [small, large] = *batches;
  std::int64_t samples = 0;
  collectively(world, [&] { samples = loadData(deck.data, deck.run.seed, Need::labels_only).train.size(); });
  large = std::min(large, samples);
  small = std::min(small, std::max<std::int64_t>(1, large / 2));
  constexpr double ticks = 1e12; // of a second
  std::vector<std::int64_t> least, most;
  for (const auto& [batch, times] : {std::pair{small, &least}, std::pair{large, &most}})
    *times =
        world.gather(static_cast<std::int64_t>(ticks * stepOf(space, world, deck, batch, setting, quick)));
  const std::string name = deckName(path);
  for (std::size_t rank = 1; rank < least.size(); ++rank) {
    WorkerTiming timing = workerTiming(small, static_cast<double>(least[rank]) / ticks, large,
                                       static_cast<double>(most[rank]) / ticks);
    timing.deck = name;
    timing.rank = static_cast<std::int64_t>(rank);
    cluster.workers.push_back(timing);
    Log::info(formatted("  %s: rank %zu needs %.4g ms per batch and %.4g us per sample", name.c_str(), rank,
                        1e3 * timing.overhead, 1e6 / timing.samples_per_second));
  }
}

/// `noise`: gets the percents before, during and after the measurements.
Cluster measure(const ExecSpace& space, const Communicator& world, const CalibrateArguments& arguments,
                std::vector<double>& noise) {
  Cluster cluster;
  if (isOversubscribed(world)) Log::info("  there are more threads than available cores: ranks take turns");
  noise.push_back(noisePercent(space, world));
  const std::vector<RankPlace> places = gatherPlaces(world);
  if (world.rank() == 0) cluster.name = summarisePlaces(places);
  cluster.source = "measured by `partita plan calibrate`, all ranks at once";
  cluster.node_ranks = world.maximum(std::int64_t{world.node().size()});
  cluster.node_at_once = ranksAtOnce(world);
  const double free = device_is_host ? availableOnNode() / static_cast<double>(cluster.node_ranks) : 0.0;
  cluster.memory = free < std::numeric_limits<double>::infinity() ? free : 0.0;
  measureProducts(space, world, arguments.quick, cluster);
  if (world.size() > 1) cluster.links = measureLinks(space, world, arguments.quick);
  measureOffload(world, arguments, cluster);
  const Communicator self = world.split(world.rank(), 0);
  const BenchSetting setting{self, {}};
  measureDecks(space, world, setting, arguments, cluster, noise);
  for (const std::string& deck : arguments.decks)
    timeWorkers(space, world, setting, deck, arguments.quick, cluster);
  return cluster;
}

} // namespace

int runCalibrate(const Communicator& world, const CalibrateArguments& arguments,
                 const std::string& command_line) {
  if (!arguments.runs.empty()) {
    collectively(world, [&] {
      if (world.rank() == 0) refineCluster(arguments);
    });
    return 0;
  }
  const ExecSpace space;
  std::optional<OutputFile> file; // first, so that a bad path is reported before minutes of measuring
  collectively(world, [&] {
    if (world.rank() != 0) return;
    std::vector<std::string> inputs;
    for (const std::string& deck : arguments.decks)
      for (std::string& read : filesRead(deck, {}, "")) inputs.push_back(read);
    if (arguments.output.empty()) return;
    refuseOutput(arguments.output, inputs);
    refuseToReplace(arguments.output, clusterOutput(), arguments.overwrite);
    file.emplace(arguments.output);
  });
  checkDecks(world, arguments.decks);
  if (!arguments.output.empty()) showBanner(space, world, command_line);
  std::vector<double> percents;
  const Cluster cluster = measure(space, world, arguments, percents);
  // One burst is no reason to refuse: see measureDecks.
  const double noise = typical(Typical::median, percents);
  const std::string line =
      formatted("the time of the same product varies by %.1f %% (allowed: %.1f %%)", noise, arguments.noise);
  if (noise > arguments.noise) {
    Log::error(line + ": other programs use these cores; nothing was written");
    return exit_failure;
  }
  collectively(world, [&] {
    if (!file) return;
    file->write(sealed(clusterText(cluster), clusterOutput()));
    file->commit();
  });
  Log::info("  " + line);
  if (arguments.output.empty()) Log::info(clusterText(cluster));
  return 0;
}

} // namespace partita
