#include "calibrate_kernels.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/part_exchange.hpp"
#include "partita/comm/ring_time.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/loops.hpp"
#include "partita/kernels/products.hpp"
#include "partita/optim/bucket_stream.hpp"
#include "partita/plan/cost/kernel_shape.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/stage_maker.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "layer_seconds.hpp"

namespace partita {

namespace {

KernelRate placeOf(const LayerPlan& layer, std::int64_t samples) {
  const KernelShape shape = kernelShape(layer);
  return {
      shape.type, static_cast<double>(samples) * shape.rows, shape.inputs, shape.outputs, shape.window, 0.0,
      0.0};
}

/// The layer without the other parts, with which it would exchange values.
LayerPlan aloneOnRank(LayerPlan layer) {
  layer.part.reset();
  return layer;
}

LayerPlan commonLayer(LayerSpec spec, const Shape& in) {
  spec.activation = Activation::relu;
  NetworkSection network;
  network.layers = {spec, LayerSpec{}};
  return planNetwork(network, in, 2).front();
}

bool sameShape(const KernelRate& a, const KernelRate& b) {
  return a.type == b.type && a.rows == b.rows && a.inputs == b.inputs && a.outputs == b.outputs &&
         a.window == b.window;
}

bool known(const std::vector<KernelRate>& rates, const KernelRate& rate) {
  return std::any_of(rates.begin(), rates.end(),
                     [&](const KernelRate& other) { return sameShape(other, rate); });
}

} // namespace

/// More repeats for short passes; all ranks repeat equally often. For layers of the same shape the mean
/// counts.
void KernelTimer::timeInTurn(const std::vector<LayerPlan>& layers, std::int64_t samples) {
  constexpr double enough_seconds = 0.04; // per layer and sweep
  constexpr double long_pass = 1.0;       // s: what disturbs it has averaged out
  constexpr int least = 3, most = 30;
  // The quartile leaves out passes that other programs have delayed. Ranks that take turns delay one another
  // in training too.
  const Typical which = _oversubscribed ? Typical::mean : Typical::lower_quartile;
  const bool all_known = std::all_of(layers.begin(), layers.end(), [&](const LayerPlan& layer) {
    return known(_rates, placeOf(layer, samples));
  });
  if (all_known) return;
  _world.barrier();
  std::vector<LayerSeconds> seconds = partita::timeInTurn(_space, layers, samples, 1, which);
  double once = 0.0;
  for (const LayerSeconds& layer : seconds) once += layer.forward + layer.backward;
  const double slowest = _world.maximum(once),
               repeats = enough_seconds * static_cast<double>(layers.size()) / slowest;
  if (!_quick && slowest < long_pass)
    seconds = partita::timeInTurn(_space, layers, samples, std::clamp(static_cast<int>(repeats), least, most),
                                  which);
  std::vector<KernelRate> found;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    KernelRate rate = placeOf(layers[i], samples);
    if (known(_rates, rate) || known(found, rate)) continue;
    double forward = 0.0, backward = 0.0, same = 0.0;
    for (std::size_t j = i; j < layers.size(); ++j) {
      if (!sameShape(rate, placeOf(layers[j], samples))) continue;
      forward += seconds[j].forward;
      backward += seconds[j].backward;
      same += 1.0;
    }
    const KernelShape shape = kernelShape(layers[i]);
    const double work = same * static_cast<double>(samples);
    rate.forward = work * shape.forward.total() / secondsOfRanks(_world, forward, _oversubscribed);
    rate.backward = work * (shape.weights + shape.input_gradient).total() /
                    secondsOfRanks(_world, backward, _oversubscribed);
    found.push_back(rate);
  }
  _rates.insert(_rates.end(), found.begin(), found.end());
}

void KernelTimer::timeLayers(const std::vector<LayerPlan>& layers, std::int64_t samples) {
  std::vector<LayerPlan> timed;
  for (const LayerPlan* layer : leavesOf(layers)) {
    if (layer->exchange || layer->rules().tied(*layer)) continue;
    const KernelShape shape = kernelShape(*layer);
    if (shape.forward.total() > 0.0 && (shape.weights + shape.input_gradient).total() > 0.0)
      timed.push_back(aloneOnRank(*layer));
  }
  if (!timed.empty()) timeInTurn(timed, samples);
}

void KernelTimer::timeCommon() {
  const std::vector<std::int64_t> widths =
      _quick ? std::vector<std::int64_t>{16, 64} : std::vector<std::int64_t>{16, 128, 1024};
  const std::vector<std::int64_t> channels =
      _quick ? std::vector<std::int64_t>{4, 16} : std::vector<std::int64_t>{8, 64};
  for (const std::int64_t inputs : widths) {
    for (const std::int64_t units : widths) {
      LayerSpec dense;
      dense.dense.units = units;
      for (const std::int64_t samples : widths) timeInTurn({commonLayer(dense, {inputs})}, samples);
    }
  }
  for (const std::int64_t inputs : channels) {
    for (const std::int64_t outputs : channels) {
      for (const std::int64_t kernel : {1, 3}) {
        LayerSpec conv;
        conv.type = "conv2d";
        conv.convolution.channels = outputs;
        conv.convolution.kernel = {{kernel}};
        for (const std::int64_t samples : {1, 8}) timeInTurn({commonLayer(conv, {inputs, 16, 16})}, samples);
      }
    }
  }
}

void KernelTimer::timeDeck(const RunConfig& deck, const std::vector<LayerPlan>& layers) {
  const std::int64_t batch = deck.training.batch;
  RunConfig in_float = deck; // as kernels are timed
  in_float.run.precision = Precision::single;
  StrategySection& joint = in_float.strategy;
  joint = {};
  joint.kind = StrategyKind::joint;
  const StagePlan whole =
      StageMaker(in_float, layers).stage(0, static_cast<std::int64_t>(layers.size()), 0, 1);
  for (const std::int64_t samples : timedSamples(batch, _quick ? 1 : 16)) timeLayers(whole.layers, samples);
  for (joint.parts = 2; joint.parts <= _world.size(); joint.parts *= 2) {
    for (const Split split : {Split::grid, Split::spatial, Split::filter, Split::channel}) {
      joint.split = split;
      try {
        const StagePlan own = partOfStage(whole, joint, 0);
        for (const std::int64_t samples : timedSamples(batch, _quick ? 1 : 4))
          timeLayers(own.layers, samples);
      } catch (const UserError&) { // the network cannot be divided like this
      }
    }
  }
}

double secondsPerGflop(const ExecSpace& space, int n, int repeats, bool oversubscribed, Precision precision) {
  if (!oversubscribed) return 1.0 / measureGemmRate(space, n, repeats, precision);
  constexpr double enough_seconds = 0.1; // many turns
  std::vector<double> seconds;
  for (const auto start = Clock::now(); secondsSince(start) < enough_seconds;)
    seconds.push_back(1.0 / measureGemmRate(space, n, 1, precision));
  return typical(Typical::mean, seconds);
}

double secondsOfRanks(const Communicator& world, double seconds, bool oversubscribed) {
  if (!oversubscribed) return world.maximum(seconds);
  std::vector<double> sums{seconds, seconds > 0.0 ? 1.0 : 0.0};
  world.sum(sums);
  return sums[0] / sums[1];
}

double leastSeconds(const Communicator& world, const std::function<void()>& body) {
  constexpr int repeats = 7;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= repeats; ++i) {
    world.barrier();
    const auto start = Clock::now();
    body();
    if (i > 0) best = std::min(best, secondsSince(start)); // the first one touches the pages
  }
  return world.maximum(best);
}

std::vector<Concurrency> measureConcurrency(const ExecSpace& space, const Communicator& world, bool quick) {
  const Communicator node = world.node();
  const int size = static_cast<int>(world.maximum(std::int64_t{node.size()}));
  const bool oversubscribed = isOversubscribed(world);
  std::vector<Concurrency> found{{1, 1.0}};
  while (found.back().ranks < size)
    found.push_back({std::min<std::int64_t>(2 * found.back().ranks, size), 1.0});
  std::vector<std::vector<double>> factors(found.size()); // of several rounds, because other programs disturb
  for (int round = 0; round < (quick ? 1 : 5); ++round) {
    double alone = 0.0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      world.barrier();
      const bool computes = node.rank() < found[i].ranks;
      const double own =
          computes ? secondsPerGflop(space, quick ? 128 : 512, quick ? 2 : 7, oversubscribed) : 0.0;
      const double seconds = secondsOfRanks(world, own, oversubscribed);
      if (i == 0) alone = seconds;
      factors[i].push_back(seconds / alone);
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) found[i].factor = typical(Typical::median, factors[i]);
  return found;
}

double secondsPerCopiedByte(const ExecSpace& space, const Communicator& world, bool quick) {
  const std::int64_t rows = quick ? 256 : 8192, columns = 1024, own = columns / 2;
  const Matrix all = makeMatrix("partita::calibrate::all", rows, columns),
               part = makeMatrix("partita::calibrate::part", rows, own);
  const double seconds = leastSeconds(world, [&] {
    copyColumns(space, all.data(), columns, part.data(), own, rows, own);
    copyColumns(space, part.data(), own, all.data() + own, columns, rows, own);
    fence(space, "partita::calibrate::copy");
  });
  return seconds / static_cast<double>(2 * rows * own * static_cast<std::int64_t>(sizeof(Real)));
}

double offloadBandwidth(const Communicator& world, Offload offload, const std::string& folder, bool quick) {
  constexpr std::int64_t buckets = 4, small = 1 << 16;
  const std::int64_t bucket = quick ? small : OptimiserSection().offload_bucket, size = buckets * bucket;
  std::optional<BucketStream> stream;
  collectively(world, [&] {
    const Placement placement{offload, folder};
    const StoredVector first(placement, "partita::calibrate::first", size),
        second(placement, "partita::calibrate::second", size);
    stream.emplace(size, std::vector<StoredVector>{first, second}, bucket);
  });
  const ExecSpace space;
  const double seconds = leastSeconds(world, [&] {
    stream->run(space, [](const BucketStream::Bucket&) {});
    fence(space, "partita::calibrate::offload");
  });
  const bool overlaps = (offload == Offload::host) != device_is_host;
  const double one_way = 2.0 * static_cast<double>(size * static_cast<std::int64_t>(sizeof(Real))),
               passes = overlaps ? 1.0 + 1.0 / static_cast<double>(buckets) : 2.0;
  return passes * one_way / seconds;
}

double measureOverlap(const ExecSpace& space, const Communicator& world, bool quick) {
  if (world.size() == 1) return 1.0;
  const int n = quick ? 64 : 256;
  const Matrix a = makeMatrix("partita::calibrate::a", n, n), b = makeMatrix("partita::calibrate::b", n, n),
               c = makeMatrix("partita::calibrate::c", n, n);
  return ringOverlap(world, world.size(), std::int64_t{1} << (quick ? 16 : 22), isOversubscribed(world), [&] {
    gemm(space, Op::none, Op::none, Real(1), a, b, Real(0), c);
    fence(space, "partita::calibrate::overlap");
  });
}

} // namespace partita
