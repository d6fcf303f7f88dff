#include "partita/plan/cost/kernel_shape.hpp"

#include "partita/plan/layer_rules.hpp"

#include <algorithm>

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

std::vector<std::int64_t> timedSamples(std::int64_t batch, std::int64_t shares) {
  const std::int64_t least = std::max<std::int64_t>(1, batch / shares);
  std::vector<std::int64_t> counts;
  for (std::int64_t count = batch; count > least; count = (count + 1) / 2) counts.push_back(count);
  counts.push_back(least);
  return counts;
}

} // namespace partita
