#include "partita/plan/cost/layer_cost.hpp"

#include "partita/plan/cost/backward_passes.hpp"

namespace partita {

namespace {

/// f of the authors' estimate 2 f + |w| (parallel_analysis.py of TruongThaoNguyen/paraDL-analysis): twice the
/// multiply-adds of a convolution, once those of a fully connected layer, 4 |x| of a norm. For pooling it
/// counts each input channel for each output channel, which is a factor C too much.
double authorsWork(const LayerPlan& plan, const LayerCost& cost) {
  switch (cost.work) {
  case LayerWork::elementwise:
    return 0.0;
  case LayerWork::product:
    return cost.macs;
  case LayerWork::pooling: {
    double covered = 1.0;
    for (std::size_t a = 0; a < 3; ++a) covered *= asReal(cost.windows->kernel[a] * cost.windows->out[a]);
    return cost.channels() * cost.filters() * covered;
  }
  case LayerWork::normalisation:
    return 4.0 * cost.inputs;
  case LayerWork::convolution:
  case LayerWork::attention:
  case LayerWork::other:
    break;
  }
  return plan.forwardFlops();
}

double activationFlops(const LayerPlan& plan) {
  return plan.spec.activation == Activation::identity ? 0.0 : 2.0 * asReal(plan.outputs());
}

LayerCost shapeOnly(const LayerPlan& plan, bool in_shortcut) {
  LayerCost cost;
  cost.name = plan.name();
  cost.index = plan.index;
  cost.in_shortcut = in_shortcut;
  cost.in = plan.in;
  cost.out = plan.out;
  cost.inputs = asReal(plan.inputs());
  cost.outputs = asReal(plan.outputs());
  return cost;
}

LayerCost leafCost(const LayerPlan& plan, bool in_shortcut) {
  LayerCost cost = shapeOnly(plan, in_shortcut);
  const LayerRules& rules = plan.rules();
  cost.work = rules.work();
  cost.windows = rules.windows(plan);
  for (const ParameterShape& tensor : plan.parameterShapes())
    (tensor.extents.size() > 1 ? cost.weights : cost.vectors) += asReal(tensor.size());
  cost.forward_flops = plan.forwardFlops();
  cost.weight_flops = plan.weightFlops();
  cost.input_flops = plan.inputFlops();
  cost.macs = cost.forward_flops / 2.0;
  cost.kernel = kernelShape(plan);
  cost.of_pass = !plan.statisticsShapes().empty() && !rules.acrossReplicas(plan);
  const bool changes_shape = rules.outputValues() == OutputValues::rearranged;
  const bool activates = cost.work == LayerWork::elementwise && plan.spec.activation != Activation::identity;
  cost.in_place = changes_shape || activates || cost.work == LayerWork::normalisation;
  cost.authors_flops = 2.0 * authorsWork(plan, cost) + cost.weights;
  cost.activation_flops = activationFlops(plan);
  return cost;
}

/// The sum of the two branches of a residual group, and the activation of the group.
LayerCost sumCost(const LayerPlan& group, bool in_shortcut) {
  LayerCost cost = shapeOnly(group, in_shortcut);
  cost.sum = true;
  cost.in = group.out;
  cost.inputs = cost.outputs;
  cost.authors_flops = 2.0 * cost.outputs;
  cost.activation_flops = activationFlops(group);
  return cost;
}

void append(const std::vector<LayerPlan>& layers, bool in_shortcut, std::vector<LayerCost>& costs) {
  for (const LayerPlan& layer : layers) {
    if (!layer.group()) {
      costs.push_back(leafCost(layer, in_shortcut));
      continue;
    }
    append(layer.body, in_shortcut, costs);
    append(layer.shortcut, true, costs);
    if (layer.rules().residual()) costs.push_back(sumCost(layer, in_shortcut));
  }
}

} // namespace

double LayerCost::channels() const {
  if (isSequence(in)) return asReal(in.back());
  return work == LayerWork::product ? inputs : asReal(in.front());
}

double LayerCost::filters() const {
  return asReal(isSequence(out) ? out.back() : out.front());
}

std::vector<LayerCost> layerCosts(const std::vector<LayerPlan>& layers) {
  std::vector<LayerCost> costs;
  append(layers, false, costs);
  const std::vector<BackwardPass> backward_of = backwardPasses(layers, false);
  std::size_t leaf = 0;
  for (LayerCost& cost : costs) {
    if (cost.sum) continue;
    const BackwardPass& backward = backward_of[leaf++];
    cost.again = asReal(backward.again);
    cost.input_gradient = backward.input_gradient;
  }
  return costs;
}

double sumOf(const std::vector<LayerCost>& layers, double LayerCost::*field) {
  double sum = 0.0;
  for (const LayerCost& layer : layers) sum += layer.*field;
  return sum;
}

} // namespace partita
