#include "partita/config/user_error.hpp"
#include "partita/plan/layers/table.hpp"

#include <algorithm>

namespace partita {

namespace {

/// Sums about the mean and the normalised values; back, the sums of two gradients and the input's gradient.
/// Each sum is a pass over the values, and the second pass of a pair finds them in the cache.
Moves normMoves(const LayerPlan& plan) {
  const auto values = static_cast<double>(plan.inputs());
  return {4 * values, 5 * values, 3 * values};
}

/// Norms over channels do not support sequences.
void refuseSequence(const LayerPlan& plan) {
  if (isSequence(plan.in))
    throw UserError(plan.entry + ": " + plan.spec.type +
                    " takes vectors, images and volumes, but its input " + toText(plan.in) +
                    " is a sequence");
}

/// y = act(scale (x - mean) / sqrt(variance + epsilon) + shift), channel by channel.
class BatchNormRules : public LayerRules {
 public:
  LayerWork work() const override { return LayerWork::normalisation; }
  bool channelwise() const override { return true; }
  Moves moves(const LayerPlan& plan) const override { return normMoves(plan); }

  Shape output(const LayerPlan& plan) const override {
    refuseSequence(plan);
    return plan.in;
  }

  std::vector<ParameterShape> parameters(const LayerPlan& plan) const override {
    return {{"scale", {plan.in.front()}, "channels"}, {"shift", {plan.in.front()}, "channels"}};
  }
  std::vector<ParameterShape> statistics(const LayerPlan& plan) const override {
    return {{"mean", {plan.in.front()}, "channels"}, {"variance", {plan.in.front()}, "channels"}};
  }

  /// Mean and deviation of the batch; a batch of even one row has room for them.
  std::int64_t savedValues(const LayerPlan& plan) const override { return 2 * plan.in.front(); }

  /// Two sums per channel of each row and of the batch, and the number of values in the batch.
  std::int64_t workValues(const LayerPlan& plan, std::int64_t rows) const override {
    return 2 * plan.in.front() * (rows + 1) + 1;
  }

  bool scalesOutput(const LayerPlan&) const override { return true; }
  bool acrossReplicas(const LayerPlan& plan) const override { return plan.spec.batch_norm.replicas; }

  LayerStep step(const LayerPlan& plan) const override {
    return {plan.spec.type, plan.in, plan.out, {{"epsilon", {}, plan.spec.batch_norm.epsilon}}};
  }
};

/// The divisors of `channels` nearest to `groups`, which is not one itself: "2 or 5".
std::string nearestDivisors(std::int64_t channels, std::int64_t groups) {
  std::int64_t below = std::min(groups, channels), above = groups;
  while (channels % below != 0) --below;
  while (above < channels && channels % above != 0) ++above;
  return std::to_string(below) +
         (above < channels || below < channels ? " or " + std::to_string(std::min(above, channels)) : "");
}

/// y = scale (x - mean) / sqrt(variance + epsilon) + shift, channel by channel, with the mean and variance of
/// a group of channels of the sample.
class GroupNormRules : public LayerRules {
 public:
  LayerWork work() const override { return LayerWork::normalisation; }
  Moves moves(const LayerPlan& plan) const override { return normMoves(plan); }

  Shape output(const LayerPlan& plan) const override {
    refuseSequence(plan);
    const std::int64_t channels = plan.in.front(), groups = plan.spec.group_norm.groups;
    if (channels % groups != 0)
      throw UserError(plan.entry + ": " + std::to_string(channels) + " channels cannot be divided into " +
                      std::to_string(groups) + " groups; use " + nearestDivisors(channels, groups));
    if (plan.inputs() == groups)
      throw UserError(plan.entry + ": group-norm would have a single value in each of " +
                      std::to_string(groups) + " groups; use fewer");
    return plan.in;
  }

  std::vector<ParameterShape> parameters(const LayerPlan& plan) const override {
    return {{"scale", {plan.in.front()}, "channels"}, {"shift", {plan.in.front()}, "channels"}};
  }

  /// Mean and 1 / deviation of each group.
  std::int64_t savedValues(const LayerPlan& plan) const override { return 2 * plan.spec.group_norm.groups; }

  /// Two statistics and two sums per channel.
  std::int64_t workValues(const LayerPlan& plan, std::int64_t rows) const override {
    return 4 * plan.in.front() * rows;
  }

  bool scalesOutput(const LayerPlan&) const override { return true; }

  LayerStep step(const LayerPlan& plan) const override {
    const GroupNormKeys& keys = plan.spec.group_norm;
    return {plan.spec.type, plan.in, plan.out, {{"groups", {keys.groups}}, {"epsilon", {}, keys.epsilon}}};
  }
};

/// A factor, and for layer-norm a shift, per value of the last extent.
class NormRules : public LayerRules {
 public:
  explicit NormRules(bool centred) : _centred(centred) {}

  LayerWork work() const override { return LayerWork::normalisation; }
  bool inShapeOrder() const override { return true; }
  Moves moves(const LayerPlan& plan) const override { return normMoves(plan); }

  std::vector<ParameterShape> parameters(const LayerPlan& plan) const override {
    std::vector<ParameterShape> shapes{{"weight", {plan.in.back()}, "width"}};
    if (_centred) shapes.push_back({"bias", {plan.in.back()}, "width"});
    return shapes;
  }
  /// Per position: one over its deviation, and for layer-norm its mean.
  std::int64_t savedValues(const LayerPlan& plan) const override {
    return (_centred ? 2 : 1) * positionsOf(plan.in);
  }
  std::int64_t halfScratch(const LayerPlan&, std::int64_t) const override { return 0; }
  /// Gradients of the parameters of groups of rows, and after them those that parts add up, and room for
  /// what arrives.
  std::int64_t workValues(const LayerPlan& plan, std::int64_t rows) const override {
    const std::int64_t values = (_centred ? 2 : 1) * plan.in.back(),
                       of_groups = values * normGroups(rows * positionsOf(plan.in));
    if (!plan.part || !plan.part->by_positions) return of_groups;
    return of_groups + values + values / plan.part->parts + 1;
  }

  LayerStep step(const LayerPlan& plan) const override {
    return {plan.spec.type, plan.in, plan.out, {{"epsilon", {}, plan.spec.norm.epsilon}}};
  }

 private:
  bool _centred;
};

} // namespace

const LayerRules& batchNormRules() {
  static const BatchNormRules rules;
  return rules;
}

const LayerRules& groupNormRules() {
  static const GroupNormRules rules;
  return rules;
}

const LayerRules& layerNormRules() {
  static const NormRules rules(true);
  return rules;
}

const LayerRules& rmsNormRules() {
  static const NormRules rules(false);
  return rules;
}

} // namespace partita
