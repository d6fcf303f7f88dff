#include "partita/config/user_error.hpp"
#include "partita/plan/layers/table.hpp"

#include <algorithm>

namespace partita {

namespace {

/// A table of vectors, one per token: {positions} -> {positions, width}.
class EmbeddingRules : public LayerRules {
 public:
  LayerWork work() const override { return LayerWork::other; }

  Shape output(const LayerPlan& plan) const override {
    if (plan.number != 0 || plan.in.size() != 1)
      throw UserError(plan.entry +
                      ": an embedding takes the tokens of the data, so it must be the first layer");
    return {plan.in[0], plan.spec.embedding.width};
  }
  std::vector<ParameterShape> parameters(const LayerPlan& plan) const override {
    const std::int64_t positions = ownPositions(plan);
    std::vector<ParameterShape> shapes{{"weight", table(plan), "tokens, width"}};
    if (positions > 0)
      shapes.push_back({"position", {positions, plan.spec.embedding.width}, "positions, width"});
    return shapes;
  }
  /// Rows of the tables are added up; back, each gradient is added to a row of both.
  Moves moves(const LayerPlan& plan) const override {
    const double each = plan.spec.embedding.positions ? 3.0 : 2.0;
    return {each * static_cast<double>(plan.outputs()), 2 * each * static_cast<double>(plan.outputs()), 0.0};
  }
  /// For the places sorted by token, as devices do.
  std::int64_t workValues(const LayerPlan& plan, std::int64_t rows) const override {
    return sortScratch(rows * plan.in[0]);
  }
  std::int64_t halfScratch(const LayerPlan& plan, std::int64_t) const override {
    const std::int64_t width = plan.spec.embedding.width;
    return (panelRows(table(plan)[0], width) + ownPositions(plan)) * width;
  }

  Shape table(const LayerPlan& plan) const override {
    return {plan.ownRows("weight", plan.classes).size(), plan.spec.embedding.width};
  }
  LayerStep step(const LayerPlan& plan) const override { return {"embedding", plan.in, plan.out}; }

 private:
  static std::int64_t ownPositions(const LayerPlan& plan) {
    return plan.spec.embedding.positions ? plan.ownRows("position", plan.in[0]).size() : 0;
  }
};

class AttentionRules : public LayerRules {
 public:
  LayerWork work() const override { return LayerWork::attention; }

  Shape output(const LayerPlan& plan) const override {
    if (!isSequence(plan.in)) {
      throw UserError(plan.entry + ": attention needs a sequence of positions, not a sample of shape " +
                      toText(plan.in));
    }
    const std::int64_t width = plan.in[1], heads = plan.spec.attention.heads;
    if (width % heads != 0 || width / heads > widest_head) {
      throw UserError(plan.entry + ": a width of " + std::to_string(width) + " cannot be divided among " +
                      std::to_string(heads) + " heads of at most " + std::to_string(widest_head));
    }
    return plan.in;
  }

  std::vector<ParameterShape> parameters(const LayerPlan& plan) const override {
    const std::int64_t width = plan.in[1], own = widthOfHeads(plan);
    const bool bias = plan.spec.attention.bias;
    std::vector<ParameterShape> shapes{{"qkv_weight", {3 * own, width}, "outputs, inputs"}};
    if (bias) shapes.push_back({"qkv_bias", {3 * own}, "outputs"});
    shapes.push_back({"out_weight", {width, own}, "outputs, inputs"});
    if (bias && (!plan.part || plan.part->adds_bias)) shapes.push_back({"out_bias", {width}, "outputs"});
    return shapes;
  }

  /// Projections, and two products over the positions that the mask leaves visible: half of all pairs.
  double forwardFlops(const LayerPlan& plan) const override { return projections(plan) + pairs(plan, 2.0); }
  double weightFlops(const LayerPlan& plan) const override { return projections(plan); }
  /// In addition to the projections: the scores again, and two products each for them and for the weights.
  double inputFlops(const LayerPlan& plan) const override { return projections(plan) + pairs(plan, 5.0); }
  double recomputedFlops(const LayerPlan& plan) const override { return pairs(plan, 1.0); }

  /// In addition to biases and their gradients: visible scores are written, become weights, and are read; in
  /// the backward pass they are computed again, and so are their gradients.
  Moves moves(const LayerPlan& plan) const override {
    const double biased =
        plan.spec.attention.bias ? static_cast<double>(plan.inputs() + 3 * ownValues(plan)) : 0.0;
    const double scores =
        0.5 * static_cast<double>(plan.in[0] * (plan.in[0] + 1) * plan.spec.attention.heads);
    return {2 * biased + 4 * scores, biased, 9 * scores};
  }

  /// Queries, keys and values, the outputs of the heads, and the logarithm of each row's sum.
  std::int64_t savedValues(const LayerPlan& plan) const override {
    return roomOf(4 * ownValues(plan), plan.activations) + sums(plan);
  }
  /// Gradients of these, and what is saved in 16 bits as `Real`, or scratch of a library; in the forward
  /// pass, running sums.
  std::int64_t workValues(const LayerPlan& plan, std::int64_t rows) const override {
    const bool half = plan.activations != Precision::single;
    return rows * ((half ? 8 : 4) * ownValues(plan) + sums(plan)) + (half ? packed_alignment : 0);
  }
  std::int64_t halfScratch(const LayerPlan& plan, std::int64_t rows) const override {
    const std::int64_t width = plan.in[1], own = widthOfHeads(plan), places = rows * plan.in[0],
                       panel = std::max(panelRows(3 * own, width) * width, panelRows(width, own) * own);
    std::int64_t values = std::max({panel, halfOperand(places, width), halfOperand(places, 3 * own)});
    if (plan.activations != Precision::single)
      values = std::max({values, rowsInReal(places, width, 3 * own) * (width + 3 * own),
                         rowsInReal(places, own, width) * (own + width)});
    return values + (plan.spec.attention.bias ? 3 * own + width : 0);
  }

  LayerStep step(const LayerPlan& plan) const override {
    return {"attention", plan.in, plan.out, {{"heads", {plan.spec.attention.heads}}}};
  }

 private:
  static std::int64_t sums(const LayerPlan& plan) { return plan.in[0] * plan.spec.attention.heads; }
  static double projections(const LayerPlan& plan) {
    return 8.0 * static_cast<double>(plan.inputs()) * static_cast<double>(widthOfHeads(plan));
  }
  static double pairs(const LayerPlan& plan, double products) {
    return products * static_cast<double>(ownValues(plan)) * static_cast<double>(plan.in[0] + 1);
  }
  static std::int64_t ownValues(const LayerPlan& plan) { return plan.in[0] * widthOfHeads(plan); }
};

} // namespace

std::int64_t widthOfHeads(const LayerPlan& plan) {
  const LayerPlan& whole = plan.whole();
  return plan.spec.attention.heads * (whole.in[1] / whole.spec.attention.heads);
}

const LayerRules& embeddingRules() {
  static const EmbeddingRules rules;
  return rules;
}

const LayerRules& attentionRules() {
  static const AttentionRules rules;
  return rules;
}

} // namespace partita
