#include "partita/config/names.hpp"
#include "partita/nn/reencode.hpp"

#include <memory>

#include "layer_probe.hpp"
#include "support/catch.hpp"

namespace partita::test::layers {

namespace {

LayerPlan densePlan(std::int64_t inputs, std::int64_t outputs, Activation activation, bool bias) {
  LayerPlan plan;
  plan.in = {inputs};
  plan.out = {outputs};
  plan.spec.activation = activation;
  plan.spec.slope = 0.1;
  plan.spec.dense.bias = bias;
  return plan;
}

double smallest(const Values& values) {
  double least = std::abs(values.front());
  for (const double value : values) least = std::min(least, std::abs(value));
  return least;
}

/// Inputs for which no argument of the activation is close to zero.
Values inputsAwayFromKinks(const LayerPlan& plan, const Values& parameters) {
  LayerPlan linear = plan;
  linear.spec.activation = Activation::identity;
  const auto layer = makeLayer(linear);
  const LayerProbe probe(*layer, linear);
  for (std::uint64_t seed = 1;; ++seed) {
    const Values in = normals(rows * plan.inputs(), seed);
    probe.value(parameters, in);
    if (smallest(probe.outputs()) > 0.02) return in;
  }
}

} // namespace

TEST_CASE("Dense: parameters and input, every activation, with and without bias", "[gradient]") {
  for (const std::string& name : namesOf<Activation>()) {
    for (const bool bias : {true, false}) {
      INFO(name << ", bias " << bias);
      const auto& names = namesOf<Activation>();
      const auto activation =
          static_cast<Activation>(std::find(names.begin(), names.end(), name) - names.begin());
      const LayerPlan plan = densePlan(5, 4, activation, bias);
      const Values parameters = normals(plan.parameters(), 7);
      const auto layer = makeLayer(plan);
      checkAgainstDifferences(LayerProbe(*layer, plan), parameters, inputsAwayFromKinks(plan, parameters));
    }
  }
}

TEST_CASE("Dense: more units than one work item of the bias gradient takes", "[gradient]") {
  const LayerPlan plan = densePlan(2, 131, Activation::tanh, true);
  const auto layer = makeLayer(plan);
  checkAgainstDifferences(LayerProbe(*layer, plan), normals(plan.parameters(), 3),
                          normals(rows * plan.inputs(), 4));
}

TEST_CASE("Dense: accumulate adds to the gradients, otherwise they are overwritten", "[gradient]") {
  for (const bool bias : {true, false}) {
    const LayerPlan plan = densePlan(5, 4, Activation::gelu, bias);
    const auto layer = makeLayer(plan);
    const LayerProbe probe(*layer, plan);
    const Values parameters = normals(plan.parameters(), 7);
    probe.value(parameters, normals(rows * plan.inputs(), 1));
    probe.backward();
    Values sum = probe.gradients();
    probe.value(parameters, normals(rows * plan.inputs(), 2));
    probe.backward();
    const Values second = probe.gradients();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += second[i];

    probe.value(parameters, normals(rows * plan.inputs(), 1));
    probe.backward(true);
    CHECK(relativeError(probe.gradients(), sum) < 1e-14);
  }
}

TEST_CASE("ActivationLayer: every activation", "[gradient]") {
  for (std::size_t which = 0; which < namesOf<Activation>().size(); ++which) {
    INFO(namesOf<Activation>()[which]);
    LayerPlan plan = densePlan(7, 7, static_cast<Activation>(which), false);
    plan.spec.type = "activation";
    const auto layer = makeLayer(plan);
    checkAgainstDifferences(LayerProbe(*layer), {}, awayFromZero(normals(rows * plan.inputs(), 5)));
  }
}

TEST_CASE("Reencode: input gradient, every kind of labels", "[gradient]") {
  for (std::size_t kind = 0; kind < namesOf<LabelKind>().size(); ++kind) {
    INFO(namesOf<LabelKind>()[kind]);
    const SilLabels labels = makeSilLabels(static_cast<LabelKind>(kind), 1.0, 0.0, 5, 11, 2, 0);
    Reencode layer(labels, 0, rows);
    const LayerProbe probe(layer);
    const Values in = normals(rows * layer.inputs(), 6);
    checkAgainstDifferences(probe, {}, in);
  }
}

} // namespace partita::test::layers
