
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/core/loops.hpp"
#include "partita/core/random.hpp"
#include "partita/core/region.hpp"
#include "partita/io/json.hpp"
#include "partita/nn/gemm.hpp"
#include "partita/optim/optimiser.hpp"
#include "partita/train/banner.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "bench_model.hpp"
#include "commands.hpp"

namespace partita {

namespace {

using Clock = std::chrono::steady_clock;

/// a = b + s c over arrays far larger than any cache, counted as three passes (McCalpin, STREAM).
struct Triad {
  Real *a, *b, *c;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { a[i] = b[i] + Real(3) * c[i]; }
};

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double measureTriad(const ExecSpace& space, int repeats) {
  const std::int64_t size = std::int64_t{1} << 25;
  const Vector a("partita::bench::a", size), b("partita::bench::b", size), c("partita::bench::c", size);
  double best = 0.0;
  for (int i = 0; i <= repeats; ++i) {
    const auto start = Clock::now();
    forEachValue(space, "partita::bench::triad", size, Triad{a.data(), b.data(), c.data()});
    fence(space, "partita::bench::triad");
    best = std::max(best, 3e-9 * static_cast<double>(size * static_cast<std::int64_t>(sizeof(Real))) /
                              secondsSince(start));
  }
  return best;
}

/// A multi-layer perceptron 784-width x5-47.
std::vector<LayerSpec> perceptron(std::int64_t width) {
  LayerSpec hidden, output;
  hidden.units = width;
  hidden.activation = Activation::relu;
  hidden.repeat = 5;
  return {hidden, output};
}

/// The network of input-decks/lenet-mnist.toml.
std::vector<LayerSpec> leNet() {
  LayerSpec conv, pool, dense, output;
  conv.type = "conv2d";
  conv.channels = 20;
  conv.kernel = {{5}};
  conv.activation = dense.activation = Activation::relu;
  pool.type = "max-pool";
  dense.units = 500;
  LayerSpec second = conv;
  second.channels = 50;
  return {conv, pool, second, pool, dense, output};
}

/// A network with Adam on random bytes that lie in memory.
BenchModel onRandomImages(const std::vector<LayerSpec>& layers, std::int64_t batch,
                          const Communicator& self) {
  RunConfig config;
  config.network.layers = layers;
  config.training.batch = batch;
  DataSets sets;
  const RandomStream random(1, Stream::glyph_noise);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(16 * batch * 784));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(random.below(i, 256));
  sets.train.features = Samples(784, std::move(bytes));
  for (std::int64_t i = 0; i < 16 * batch; ++i)
    sets.train.labels.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(i), 47)));
  sets.shape = {1, 28, 28};
  sets.classes = 47;
  sets.shift = {127.5F};
  sets.scale = {1.0F / 73.9F};
  return BenchModel(config, std::move(sets), self);
}

/// The step once more with a fence behind each phase: where the time goes.
void showPhases(const ExecSpace& space, BenchModel& model, double gemm_rate, double triad) {
  PhaseTimes::enable(true);
  PhaseTimes::reset();
  const int steps = 40;
  timeSteps(space, model, 1, steps / 2);
  const auto seconds = PhaseTimes::seconds();
  PhaseTimes::enable(false);
  const double gemm_flops = model.partition.joint_flops * static_cast<double>(model.config.training.batch);
  const auto parameters = static_cast<std::int64_t>(model.local->stage.parameters().extent(0));
  const auto adam_bytes =
      static_cast<double>(parameters * makeOptimiser(model.config.optimiser, 1)->bytesAParameter());
  std::array<char, 128> line{};
  for (const Phase phase : {Phase::gemm, Phase::elementwise, Phase::optimiser, Phase::data}) {
    const double ms = 1e3 * seconds[static_cast<std::size_t>(phase)] / steps;
    std::snprintf(line.data(), line.size(), "    %-22s %8.3f ms", phaseName(phase), ms);
    std::string text = line.data();
    if (phase == Phase::gemm) {
      std::snprintf(line.data(), line.size(), "  %5.1f %% of the sgemm rate",
                    1e-4 * gemm_flops / ms / gemm_rate);
      text += line.data();
    } else if (phase == Phase::optimiser) {
      std::snprintf(line.data(), line.size(), "  %s a step, %5.1f %% of the triad rate",
                    formatBytes(adam_bytes).c_str(), 1e-4 * adam_bytes / ms / triad);
      text += line.data();
    }
    Log::info(text);
  }
}

Measurement measureModel(const ExecSpace& space, const std::string& name, BenchModel model, bool quick,
                         double gemm_rate, double triad) {
  const std::int64_t batch = model.config.training.batch;
  const double flops = model.partition.joint_flops * static_cast<double>(batch);
  const double seconds_a_step = 1e-9 * flops / (0.7 * gemm_rate);
  const int steps = std::max(2, static_cast<int>((quick ? 0.05 : 0.4) / seconds_a_step));
  const double ms = median(timeSteps(space, model, quick ? 3 : 9, steps));
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "  %-12s %8.3f ms a step, %6.1f GFLOP/s = %5.1f %% of sgemm",
                name.c_str(), ms, 1e-6 * flops / ms, 1e-4 * flops / ms / gemm_rate);
  Log::info(line.data());
  showPhases(space, model, gemm_rate, triad);
  return {name, ms, "ms"};
}

void writeJson(const std::string& path, const std::vector<Measurement>& measurements) {
  std::string text = "[\n";
  for (std::size_t i = 0; i < measurements.size(); ++i) {
    JsonObject object;
    object.add("name", measurements[i].name);
    object.add("value", measurements[i].value);
    object.add("unit", measurements[i].unit);
    text += "  " + object.text(2) + (i + 1 < measurements.size() ? ",\n" : "\n");
  }
  if (!(std::ofstream(path) << text << "]\n")) throw UserError("cannot write '" + path + "'");
}

} // namespace

void runBench(const Communicator& world, const BenchArguments& arguments, const std::string& command_line) {
  const ExecSpace space;
  showBanner(space, world, command_line);
  const Communicator self = world.split(world.rank(), 0);
  const int repeats = arguments.quick ? 2 : 7;
  std::vector<Measurement> measurements;
  double gemm_rate = 0.0;
  for (const int n : {512, 1024, 2048}) gemm_rate = std::max(gemm_rate, measureGemmRate(space, n, repeats));
  const double triad = measureTriad(space, repeats);
  measurements.push_back({"sgemm", gemm_rate, "GFLOP/s"});
  measurements.push_back({"triad", triad, "GB/s"});
  std::array<char, 96> line{};
  std::snprintf(line.data(), line.size(), "  sgemm %.1f GFLOP/s, triad %.1f GB/s, the best of %d", gemm_rate,
                triad, repeats);
  Log::info(line.data());
  for (const auto& [width, batch] : {std::pair<int, int>{256, 128}, {256, 1024}, {2048, 512}}) {
    const std::string name = "mlp" + std::to_string(width) + "_b" + std::to_string(batch);
    measurements.push_back(measureModel(space, name, onRandomImages(perceptron(width), batch, self),
                                        arguments.quick, gemm_rate, triad));
  }
  measurements.push_back(measureModel(space, "lenet_b128", onRandomImages(leNet(), 128, self),
                                      arguments.quick, gemm_rate, triad));
  for (const Measurement& measured : measureConvolutions(space, arguments.quick, gemm_rate))
    measurements.push_back(measured);
  for (const Measurement& measured : measureText(space, self, arguments.quick, gemm_rate))
    measurements.push_back(measured);
  if (!arguments.json.empty() && world.rank() == 0) writeJson(arguments.json, measurements);
}

} // namespace partita
