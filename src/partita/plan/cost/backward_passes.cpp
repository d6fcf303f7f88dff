#include "partita/plan/cost/backward_passes.hpp"

namespace partita {

namespace {

/// `again`: repetitions by the groups around these layers.
void append(const std::vector<LayerPlan>& layers, std::int64_t again, bool input_gradient,
            std::vector<BackwardPass>& passes) {
  bool backward = input_gradient;
  for (const LayerPlan& layer : layers) {
    const bool wanted = backward; // of its input
    backward = backward || layer.parameters() > 0;
    if (!layer.group()) {
      passes.push_back({again, wanted});
      continue;
    }
    const std::int64_t inside = again + (backward && layer.spec.recompute ? 1 : 0);
    append(layer.body, inside, wanted, passes);
    append(layer.shortcut, inside, wanted, passes);
  }
}

} // namespace

std::vector<BackwardPass> backwardPasses(const std::vector<LayerPlan>& layers, bool input_gradient) {
  std::vector<BackwardPass> passes;
  append(layers, 0, input_gradient, passes);
  return passes;
}

} // namespace partita
