#include "partita/config/text.hpp"
#include "partita/core/log.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/window_plan.hpp"

#include "bench_model.hpp"
#include "layer_seconds.hpp"

namespace partita {

namespace {

/// Times both passes of a layer.
Measurement measureLayer(const ExecSpace& space, const std::string& name, const LayerPlan& plan,
                         std::int64_t rows, bool quick, const BenchRates& rates) {
  const LayerSeconds seconds = timeLayer(space, plan, rows, quick ? 2 : 61);
  const double ms = 1e3 * (seconds.forward + seconds.backward);
  const double flops =
      (plan.forwardFlops() + plan.weightFlops() + plan.inputFlops()) * static_cast<double>(rows);
  Log::info(formatted("  %-20s %8.3f ms forward and backward, %6.1f GFLOP/s = %5.1f %% of sgemm",
                      name.c_str(), ms, 1e-6 * flops / ms, 1e-4 * flops / ms / rates.gemm));
  return {name, ms, "ms", flops, bytesMoved({plan}, rows, Precision::single)};
}

/// A convolution with ReLU, of images or volumes.
struct ConvolutionCase {
  const char* name;
  Shape in;
  std::int64_t channels, kernel, stride, padding, rows, groups = 1;
};

LayerPlan planOf(const ConvolutionCase& c) {
  LayerSpec spec, last;
  spec.type = isVolume(c.in) ? "conv3d" : "conv2d";
  spec.convolution.channels = c.channels;
  spec.convolution.kernel = {{c.kernel}};
  spec.convolution.stride = {{c.stride}};
  spec.convolution.padding = {{c.padding}};
  spec.convolution.groups = c.groups;
  spec.activation = Activation::relu;
  NetworkSection network;
  network.layers = {spec, last};
  return planNetwork(network, c.in, 2).front();
}

} // namespace

std::vector<Measurement> measureConvolutions(const ExecSpace& space, bool quick, const BenchRates& rates,
                                             const std::function<bool(const std::string&)>& wanted) {
  const std::vector<ConvolutionCase> cases{{"conv5x5_1_20_28", {1, 28, 28}, 20, 5, 1, 0, 128},
                                           {"conv5x5_20_50_12", {20, 12, 12}, 50, 5, 1, 0, 128},
                                           {"conv3x3_32_32_14", {32, 14, 14}, 32, 3, 1, 1, 128},
                                           {"conv3x3_64_64_56", {64, 56, 56}, 64, 3, 1, 1, 8},
                                           {"conv3x3_256_256_14", {256, 14, 14}, 256, 3, 1, 1, 8},
                                           {"conv1x1_256_64_56", {256, 56, 56}, 64, 1, 1, 0, 8},
                                           {"conv7x7_3_64_224", {3, 224, 224}, 64, 7, 2, 3, 4},
                                           {"conv3x3x3_16_32_32", {16, 32, 32, 32}, 32, 3, 1, 1, 4},
                                           {"conv3x3dw_256_56", {256, 56, 56}, 256, 3, 1, 1, 8, 256}};
  std::vector<Measurement> measured;
  measured.reserve(cases.size());
  for (const ConvolutionCase& c : cases)
    if (wanted(c.name)) measured.push_back(measureLayer(space, c.name, planOf(c), c.rows, quick, rates));
  return measured;
}

Measurement measureAttention(const ExecSpace& space, const BenchModel& gpt, bool quick,
                             const BenchRates& rates) {
  const LayerPlan& attention = gpt.partition.stages[0].layers[1].body[0].body[1];
  return measureLayer(space, "attention256", attention, gpt.config.training.batch, quick, rates);
}

} // namespace partita
