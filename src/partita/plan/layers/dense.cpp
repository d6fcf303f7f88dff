#include "partita/config/user_error.hpp"
#include "partita/plan/layers/table.hpp"

#include <algorithm>

namespace partita {

namespace {

/// y = act(x W^T + b) of all values of a sample, or of each position of a sequence.
class DenseRules : public LayerRules {
 public:
  Shape output(const LayerPlan& plan) const override {
    const std::int64_t units = plan.spec.dense.units;
    if (units == 0) {
      throw UserError(plan.entry +
                      " has no units; only the last layer takes them from the number of classes");
    }
    return isSequence(plan.in) ? Shape{plan.in[0], units} : Shape{units};
  }

  void takeClasses(LayerSpec& spec, std::int64_t classes) const override {
    if (spec.dense.units == 0) spec.dense.units = classes;
  }

  std::vector<ParameterShape> parameters(const LayerPlan& plan) const override {
    std::vector<ParameterShape> shapes;
    if (!plan.spec.dense.tied)
      shapes.push_back({"weight", {plan.out.back(), fanIn(plan)}, "outputs, inputs"});
    if (plan.spec.dense.bias) shapes.push_back({"bias", {plan.out.back()}, "outputs"});
    return shapes;
  }

  LayerWork work() const override { return LayerWork::product; }
  bool inShapeOrder() const override { return true; }

  double forwardFlops(const LayerPlan& plan) const override {
    return 2.0 * static_cast<double>(fanIn(plan)) * static_cast<double>(plan.outputs());
  }

  double weightFlops(const LayerPlan& plan) const override { return forwardFlops(plan); }

  /// Bias and activation in one kernel; back, their gradients in another.
  Moves moves(const LayerPlan& plan) const override {
    const auto out = static_cast<double>(plan.outputs());
    const bool active = plan.spec.activation != Activation::identity;
    if (!active && !plan.spec.dense.bias) return {};
    return {2 * out, (active ? 3 : 1) * out, 0.0};
  }

  /// The derivative of most activations follows from the output.
  std::int64_t savedValues(const LayerPlan& plan) const override {
    return needsArgument(plan.spec.activation) ? plan.outputRoom() : 0;
  }

  std::int64_t halfScratch(const LayerPlan& plan, std::int64_t rows) const override {
    const std::int64_t units = plan.out.back(), panel = panelRows(units, fanIn(plan)) * fanIn(plan),
                       places = rows * plan.outputs() / units;
    std::int64_t values = panel;
    if (plan.activations != Precision::single)
      values = std::max(values, rowsInReal(places, fanIn(plan), units) * (fanIn(plan) + units));
    if (plan.inputPrecision() == Precision::single)
      values = std::max(values, halfOperand(places, fanIn(plan)));
    if (plan.outputPrecision() == Precision::single || units != paddedWidth(units))
      values = std::max(values, halfOperand(places, units));
    return values + (plan.spec.dense.bias ? units : 0);
  }

  bool tied(const LayerPlan& plan) const override { return plan.spec.dense.tied; }
  bool scalesOutput(const LayerPlan& plan) const override { return !plan.spec.dense.tied; }

  /// Each position of a sequence is a row.
  LayerStep step(const LayerPlan& plan) const override { return {"dense", {fanIn(plan)}, {plan.out.back()}}; }

 private:
  static std::int64_t fanIn(const LayerPlan& plan) {
    return isSequence(plan.in) ? plan.in[1] : plan.inputs();
  }
};

} // namespace

const LayerRules& denseRules() {
  static const DenseRules rules;
  return rules;
}

LayerSpec activationOf(const LayerSpec& layer) {
  LayerSpec spec;
  spec.type = "activation";
  spec.activation = layer.activation;
  spec.slope = layer.slope;
  return spec;
}

/// Activation layers and dropout. Neither is a step of its own in other programs: activations are written
/// after any layer that has one, and dropout does nothing outside training.
const LayerRules& elementwiseRules() {
  static const LayerRules rules;
  return rules;
}

} // namespace partita
