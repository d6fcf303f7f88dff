#include "partita/plan/cost/kernel_shape.hpp"

#include "partita/plan/layer_rules.hpp"

namespace partita {

KernelShape kernelShape(const LayerPlan& layer) {
  KernelShape shape;
  shape.type = layer.spec.type;
  shape.forward = layer.forwardEffort();
  shape.weights = layer.weightEffort();
  shape.input_gradient = layer.inputEffort();
  if (const std::optional<WindowPlan> windows = layer.rules().windows(layer)) {
    const bool convolution = layer.rules().work() == LayerWork::convolution;
    const auto groups = static_cast<double>(convolution ? layer.spec.convolution.groups : 1);
    shape.rows = static_cast<double>(windows->outPlaces());
    shape.inputs = static_cast<double>(layer.in.front()) / groups;
    shape.outputs = static_cast<double>(layer.out.front()) / groups;
    shape.window = static_cast<double>(windows->taps());
    return shape;
  }
  shape.rows = static_cast<double>(isSequence(layer.out) ? positionsOf(layer.out) : 1);
  shape.inputs = static_cast<double>(layer.inputs()) / shape.rows;
  shape.outputs = static_cast<double>(layer.outputs()) / shape.rows;
  return shape;
}

} // namespace partita
