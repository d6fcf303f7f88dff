#pragma once

#include "partita/config/deck.hpp"
#include "partita/plan/cost/layer_cost.hpp"
#include "partita/plan/network_plan.hpp"

#include <string>
#include <vector>

namespace partita::test {

/// Published networks for the tests of the cost model, as texts of decks.

inline std::vector<LayerPlan> planOf(const std::string& layers, const Shape& input, std::int64_t classes) {
  const RunConfig config = parseDeck("[network]\nlayers = [" + layers + "]\n", "deck");
  return planNetwork(config.network, input, classes);
}

/// A stage of bottlenecks (He et al., arXiv 1512.03385). `late`: the stride is in the 3x3 convolution (v1.5),
/// otherwise in the first 1x1 (v1).
inline std::string bottlenecks(int width, int blocks, int stride, bool late) {
  const auto conv = [](int channels, int kernel, int step, const char* activation) {
    return "{ type = \"conv2d\", channels = " + std::to_string(channels) +
           ", kernel = " + std::to_string(kernel) + ", stride = " + std::to_string(step) +
           ", padding = " + std::to_string(kernel / 2) + ", bias = false }, { type = \"batch-norm\"" +
           (*activation != 0 ? std::string(", activation = \"") + activation + "\"" : "") + " }, ";
  };
  const auto block = [&](int step, int repeat, bool shortcut) {
    return "{ type = \"residual\", activation = \"relu\", repeat = " + std::to_string(repeat) +
           ", layers = [" + conv(width, 1, late ? 1 : step, "relu") +
           conv(width, 3, late ? step : 1, "relu") + conv(4 * width, 1, 1, "") + "]" +
           (shortcut ? ", shortcut = [" + conv(4 * width, 1, step, "") + "]" : "") + " }, ";
  };
  return block(stride, 1, true) + block(1, blocks - 1, false);
}

inline std::vector<LayerPlan> resnet(const std::vector<int>& blocks, bool late) {
  std::string layers =
      "{ type = \"conv2d\", channels = 64, kernel = 7, stride = 2, padding = 3, bias = false }, "
      "{ type = \"batch-norm\", activation = \"relu\" }, "
      "{ type = \"max-pool\", kernel = 3, stride = 2, padding = 1 }, ";
  for (std::size_t i = 0; i < blocks.size(); ++i)
    layers += bottlenecks(64 << i, blocks[i], i == 0 ? 1 : 2, late);
  return planOf(layers + "{ type = \"global-average-pool\" }, { type = \"dense\" }", {3, 224, 224}, 1000);
}

inline std::string conv3d(int channels, int kernel, const std::string& more) {
  return "{ type = \"conv3d\", channels = " + std::to_string(channels) +
         ", kernel = " + std::to_string(kernel) + ", activation = \"relu\"" + more + " }, ";
}

inline std::string pool3d(int kernel = 2) {
  return "{ type = \"average-pool\", kernel = " + std::to_string(kernel) + " }, ";
}

/// The table of ParaDL for volumes of 256^3, whose convolutions keep the extents.
inline std::vector<LayerPlan> cosmoFlow256() {
  const std::string same = ", padding = \"same\", bias = false";
  return planOf(conv3d(16, 3, same) + pool3d() + conv3d(32, 3, same) + pool3d() + conv3d(64, 3, same) +
                    pool3d(4) + conv3d(128, 3, same) + pool3d() + conv3d(256, 2, same) + pool3d() +
                    conv3d(256, 2, same) + pool3d() + conv3d(128, 2, ", bias = false") +
                    "{ type = \"dense\", units = 2048, bias = false }, { type = \"dense\", units = 256, bias "
                    "= false }, "
                    "{ type = \"dense\", bias = false }",
                {4, 256, 256, 256}, 4);
}

/// CosmoFlow of MLPerf HPC (mlcommons/hpc, cosmoflow/configs/cosmo.yaml), with `channels` in the first layer.
inline std::vector<LayerPlan> cosmoFlowMlperf(int channels) {
  std::string layers;
  for (int i = 0; i < 5; ++i) layers += conv3d(channels << i, 2, ", padding = \"same\"") + pool3d();
  return planOf(
      layers + "{ type = \"dense\", units = 128 }, { type = \"dense\", units = 64 }, { type = \"dense\" }",
      {4, 128, 128, 128}, 4);
}

/// CosmoFlow of Mathuriya et al., SC 2018.
inline std::vector<LayerPlan> cosmoFlowSc18() {
  return planOf(
      conv3d(16, 3, "") + pool3d() + conv3d(32, 4, "") + pool3d() + conv3d(64, 4, ", stride = 2") +
          conv3d(128, 3, "") + pool3d() + conv3d(256, 3, "") + conv3d(256, 2, "") + conv3d(256, 2, "") +
          "{ type = \"dense\", units = 2048 }, { type = \"dense\", units = 256 }, { type = \"dense\" }",
      {1, 128, 128, 128}, 3);
}

} // namespace partita::test
