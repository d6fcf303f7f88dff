#include "partita/plan/placement/save_memory.hpp"

#include <algorithm>

namespace partita {

namespace {

bool isGroup(const LayerSpec& layer) {
  return !layer.layers.empty();
}

} // namespace

std::int64_t unrolledLayers(const NetworkSection& network) {
  std::int64_t count = 0;
  for (const LayerSpec& layer : network.layers) count += layer.repeat;
  return count;
}

bool canRecompute(const NetworkSection& network) {
  return std::any_of(network.layers.begin(), network.layers.end(),
                     [](const LayerSpec& layer) { return isGroup(layer) && !layer.recompute; });
}

NetworkSection withRecomputation(const NetworkSection& network, const std::vector<bool>& layers) {
  NetworkSection changed = network;
  changed.layers.clear();
  std::size_t number = 0;
  for (const LayerSpec& layer : network.layers) {
    for (std::int64_t i = 0; i < layer.repeat; ++i, ++number) {
      const bool recompute = layer.recompute || (isGroup(layer) && layers[number]);
      if (i > 0 && changed.layers.back().recompute == recompute) {
        ++changed.layers.back().repeat;
        continue;
      }
      changed.layers.push_back(layer);
      changed.layers.back().repeat = 1;
      changed.layers.back().recompute = recompute;
    }
  }
  return changed;
}

bool canOffload(const RunConfig& config) {
  const OptimiserSection& optimiser = config.optimiser;
  return optimiser.offload == Offload::none &&
         (optimiser.kind != OptimiserKind::sgd || optimiser.momentum > 0.0 ||
          config.run.precision != Precision::single);
}

} // namespace partita
