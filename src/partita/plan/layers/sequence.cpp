#include "partita/config/user_error.hpp"
#include "partita/plan/layers/table.hpp"

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
    std::vector<ParameterShape> shapes{
        {"weight", {plan.classes, plan.spec.embedding.width}, "tokens, width"}};
    if (plan.spec.embedding.positions)
      shapes.push_back({"position", {plan.in[0], plan.spec.embedding.width}, "positions, width"});
    return shapes;
  }
  /// Rows of the tables are added up; back, each gradient is added to a row of both.
  Moves moves(const LayerPlan& plan) const override {
    const double each = plan.spec.embedding.positions ? 3.0 : 2.0;
    return {each * static_cast<double>(plan.outputs()), 2 * each * static_cast<double>(plan.outputs()), 0.0};
  }
  std::int64_t realCopies(const LayerPlan& plan) const override {
    return (panelRows(plan.classes, plan.spec.embedding.width) +
            (plan.spec.embedding.positions ? plan.in[0] : 0)) *
           plan.spec.embedding.width;
  }

  Shape table(const LayerPlan& plan) const override { return {plan.classes, plan.spec.embedding.width}; }
  LayerStep step(const LayerPlan& plan) const override { return {"embedding", plan.in, plan.out}; }
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
    if (width % heads != 0 || width / heads > most_head_width) {
      throw UserError(plan.entry + ": a width of " + std::to_string(width) + " cannot be divided among " +
                      std::to_string(heads) + " heads of at most " + std::to_string(most_head_width));
    }
    return plan.in;
  }

  std::vector<ParameterShape> parameters(const LayerPlan& plan) const override {
    const std::int64_t width = plan.in[1];
    std::vector<ParameterShape> shapes{{"qkv_weight", {3 * width, width}, "outputs, inputs"}};
    if (plan.spec.attention.bias) shapes.push_back({"qkv_bias", {3 * width}, "outputs"});
    shapes.push_back({"out_weight", {width, width}, "outputs, inputs"});
    if (plan.spec.attention.bias) shapes.push_back({"out_bias", {width}, "outputs"});
    return shapes;
  }

  /// Projections, and two products over the positions that the mask leaves visible: half of all pairs.
  double forwardFlops(const LayerPlan& plan) const override { return projections(plan) + pairs(plan, 2.0); }
  double weightFlops(const LayerPlan& plan) const override { return projections(plan); }
  /// Besides the projections: the scores once more, and two products each for them and for the weights.
  double inputFlops(const LayerPlan& plan) const override { return projections(plan) + pairs(plan, 5.0); }

  /// Besides biases and their gradients: visible scores are written, become weights, and are read; back, they
  /// are computed once more, and so are their gradients.
  Moves moves(const LayerPlan& plan) const override {
    const double biased = plan.spec.attention.bias ? 4.0 * static_cast<double>(plan.inputs()) : 0.0;
    const double scores =
        0.5 * static_cast<double>(plan.in[0] * (plan.in[0] + 1) * plan.spec.attention.heads);
    return {2 * biased + 4 * scores, biased, 9 * scores};
  }

  /// Queries, keys and values, the outputs of the heads, and the logarithm of each row's sum.
  std::int64_t savedValues(const LayerPlan& plan) const override {
    return 4 * plan.inputs() + plan.in[0] * plan.spec.attention.heads;
  }
  /// Gradients of these; in the forward pass, running sums.
  std::int64_t workValues(const LayerPlan& plan, std::int64_t rows) const override {
    return rows * (4 * plan.inputs() + plan.in[0] * plan.spec.attention.heads);
  }
  std::int64_t realCopies(const LayerPlan& plan) const override {
    const std::int64_t width = plan.in[1];
    return panelRows(3 * width, width) * width + (plan.spec.attention.bias ? 4 * width : 0);
  }

  LayerStep step(const LayerPlan& plan) const override {
    return {"attention", plan.in, plan.out, {{"heads", {plan.spec.attention.heads}}}};
  }

 private:
  static double projections(const LayerPlan& plan) {
    return 8.0 * static_cast<double>(plan.inputs()) * static_cast<double>(plan.in[1]);
  }
  static double pairs(const LayerPlan& plan, double products) {
    return products * static_cast<double>(plan.inputs()) * static_cast<double>(plan.in[0] + 1);
  }
};

} // namespace

const LayerRules& embeddingRules() {
  static const EmbeddingRules rules;
  return rules;
}

const LayerRules& attentionRules() {
  static const AttentionRules rules;
  return rules;
}

} // namespace partita
