#include "partita/plan/cost/recomputation.hpp"

namespace partita {

namespace {

class Recomputations {
 public:
  /// `again`: repetitions by the groups around these layers.
  void append(const std::vector<LayerPlan>& layers, std::int64_t again, bool input_gradient) {
    bool backward = input_gradient;
    for (const LayerPlan& layer : layers) {
      const bool wanted = backward; // of its input
      backward = backward || layer.parameters() > 0;
      if (!layer.group()) {
        _counts.push_back(again);
        continue;
      }
      const std::int64_t inside = again + (backward && layer.spec.recompute ? 1 : 0);
      append(layer.body, inside, wanted);
      append(layer.shortcut, inside, wanted);
    }
  }

  std::vector<std::int64_t> take() { return std::move(_counts); }

 private:
  std::vector<std::int64_t> _counts;
};

} // namespace

std::vector<std::int64_t> recomputations(const std::vector<LayerPlan>& layers, bool input_gradient) {
  Recomputations found;
  found.append(layers, 0, input_gradient);
  return found.take();
}

} // namespace partita
