#include "partita/config/user_error.hpp"
#include "partita/plan/layers/table.hpp"
#include "partita/plan/parts/hidden_exchange.hpp"

#include <algorithm>
#include <numeric>

namespace partita {

namespace {

double sumOver(const LayerPlan& plan, double (LayerPlan::*value)() const) {
  double sum = 0.0;
  for (const LayerPlan& layer : plan.body) sum += (layer.*value)();
  for (const LayerPlan& layer : plan.shortcut) sum += (layer.*value)();
  return sum;
}

/// Consecutive layers that count as one: `block`, or `residual`, which adds its input or the output of a
/// shortcut.
class GroupRules : public LayerRules {
 public:
  explicit GroupRules(bool residual) : _residual(residual) {}

  Shape output(const LayerPlan& plan) const override {
    const Shape& out = plan.body.back().out;
    const Shape& beside = plan.shortcut.empty() ? plan.in : plan.shortcut.back().out;
    if (_residual && beside != out) {
      throw UserError(plan.entry + ": the output of the layers, " + toText(out) +
                      ", cannot be added to the " +
                      (plan.shortcut.empty() ? "input, " : "output of the shortcut, ") + toText(beside));
    }
    return out;
  }

  double forwardFlops(const LayerPlan& plan) const override {
    return sumOver(plan, &LayerPlan::forwardFlops);
  }
  double weightFlops(const LayerPlan& plan) const override {
    return sumOver(plan, &LayerPlan::weightFlops) + (plan.spec.recompute ? forwardFlops(plan) : 0.0);
  }
  double inputFlops(const LayerPlan& plan) const override { return sumOver(plan, &LayerPlan::inputFlops); }
  double recomputedFlops(const LayerPlan& plan) const override {
    return sumOver(plan, &LayerPlan::recomputedFlops) + (plan.spec.recompute ? forwardFlops(plan) : 0.0);
  }

  /// The sum of the branches; back, the derivative of the activation, a copy for the second branch, and the
  /// sum of the gradients of both.
  Moves moves(const LayerPlan& plan) const override {
    Moves sum;
    if (_residual) {
      sum.forward = 3.0 * static_cast<double>(plan.outputs());
      sum.parameters = 5.0 * static_cast<double>(plan.outputs());
      sum.input = 3.0 * static_cast<double>(plan.inputs());
    }
    for (const auto* layers : {&plan.body, &plan.shortcut}) {
      for (const LayerPlan& layer : *layers) {
        const Moves inside = layer.rules().moves(layer);
        sum.forward += inside.forward;
        sum.parameters += inside.parameters;
        sum.input += inside.input;
      }
    }
    if (plan.spec.recompute) sum.parameters += sum.forward;
    return sum;
  }

  std::int64_t savedValues(const LayerPlan& plan) const override {
    return plan.spec.recompute ? 0 : innerValues(plan);
  }

  /// Gradients in the backward pass, scratch of the layers inside, and with recomputation what they save.
  std::int64_t workValues(const LayerPlan& plan, std::int64_t rows) const override {
    const std::int64_t inner = std::max(workOfLayers(plan.body, rows), workOfLayers(plan.shortcut, rows));
    return 3 * plan.widestInside() * rows + inner + (plan.spec.recompute ? innerValues(plan) * rows : 0);
  }

  bool residual() const override { return _residual; }

 private:
  /// Per sample: all outputs inside, and what those layers save. The last output of a block is the block's
  /// own; the activation of a residual may need its argument.
  std::int64_t innerValues(const LayerPlan& plan) const {
    std::int64_t inside = 0;
    for (const auto* layers : {&plan.body, &plan.shortcut})
      for (const LayerPlan& layer : *layers)
        inside += alignedRoom(layer.outputRoom()) + alignedRoom(layer.savedValues());
    if (!_residual) return inside - alignedRoom(plan.outputRoom());
    return inside + (needsArgument(plan.spec.activation) ? alignedRoom(plan.outputs()) : 0);
  }

  bool _residual;
};

} // namespace

const LayerRules& blockRules() {
  static const GroupRules rules(false);
  return rules;
}

const LayerRules& residualRules() {
  static const GroupRules rules(true);
  return rules;
}

} // namespace partita
