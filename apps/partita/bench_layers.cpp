#include "partita/core/log.hpp"
#include "partita/core/loops.hpp"
#include "partita/core/random.hpp"
#include "partita/nn/stage.hpp"
#include "partita/plan/network_plan.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "bench_model.hpp"

namespace partita {

namespace {

struct Fill {
  Real* values;
  RandomStream random;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    values[i] = toRoughNormal(random.bits(static_cast<std::uint64_t>(i)));
  }
};

Matrix randomMatrix(const ExecSpace& space, std::int64_t rows, std::int64_t columns) {
  const Matrix matrix = makeMatrix("partita::bench::values", rows, columns);
  forEachValue(space, "partita::bench::fill", rows * columns,
               Fill{matrix.data(), RandomStream(1, Stream::noise_images)});
  return matrix;
}

/// A stage of this one layer. Seconds of a forward and a backward pass, the best of several.
double timePasses(const ExecSpace& space, const LayerPlan& plan, std::int64_t rows, int repeats) {
  StagePlan alone;
  alone.layers = {plan};
  Stage stage(alone, Stage::initialValues(alone, 1), rows);
  Tape tape = stage.makeTape(rows);
  const Matrix in = randomMatrix(space, rows, plan.inputs()), out = randomMatrix(space, rows, plan.outputs());
  const Matrix grad_in = makeMatrix("partita::bench::grad_in", rows, plan.inputs());
  double best = 1e30;
  for (int i = 0; i <= repeats; ++i) {
    Kokkos::deep_copy(space, stage.outputGradient(rows), out);
    fence(space, "partita::bench::layer");
    const auto start = std::chrono::steady_clock::now();
    stage.forward(space, {}, in, tape);
    stage.backward(space, {}, in, tape, stage.outputGradient(rows), grad_in);
    fence(space, "partita::bench::layer");
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (i > 0) best = std::min(best, seconds);
  }
  return best;
}

struct ConvolutionCase {
  const char* name;
  Shape in;
  std::int64_t channels, kernel, stride, padding, rows;
};

LayerPlan planOf(const ConvolutionCase& c) {
  LayerSpec spec, last;
  spec.type = "conv2d";
  spec.channels = c.channels;
  spec.kernel = {{c.kernel}};
  spec.stride = {{c.stride}};
  spec.padding = {{c.padding}};
  spec.activation = Activation::relu;
  NetworkSection network;
  network.layers = {spec, last};
  return planNetwork(network, c.in, 2).front();
}

} // namespace

std::vector<Measurement> measureConvolutions(const ExecSpace& space, bool quick, double gemm_rate) {
  const std::vector<ConvolutionCase> cases{{"conv5x5_1_20_28", {1, 28, 28}, 20, 5, 1, 0, 128},
                                           {"conv5x5_20_50_12", {20, 12, 12}, 50, 5, 1, 0, 128},
                                           {"conv3x3_32_32_14", {32, 14, 14}, 32, 3, 1, 1, 128},
                                           {"conv3x3_64_64_56", {64, 56, 56}, 64, 3, 1, 1, 8},
                                           {"conv3x3_256_256_14", {256, 14, 14}, 256, 3, 1, 1, 8},
                                           {"conv1x1_256_64_56", {256, 56, 56}, 64, 1, 1, 0, 8},
                                           {"conv7x7_3_64_224", {3, 224, 224}, 64, 7, 2, 3, 4}};
  std::vector<Measurement> measurements;
  for (const ConvolutionCase& c : cases) {
    const LayerPlan plan = planOf(c);
    const double flops =
        (plan.forwardFlops() + plan.weightFlops() + plan.inputFlops()) * static_cast<double>(c.rows);
    const double seconds = timePasses(space, plan, c.rows, quick ? 2 : 20);
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(),
                  "  %-20s %8.3f ms forward and backward, %6.1f GFLOP/s = %5.1f %% of sgemm", c.name,
                  1e3 * seconds, 1e-9 * flops / seconds, 1e-7 * flops / seconds / gemm_rate);
    Log::info(line.data());
    measurements.push_back({c.name, 1e3 * seconds, "ms"});
  }
  return measurements;
}

} // namespace partita
