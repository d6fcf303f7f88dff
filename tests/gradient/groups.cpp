#include "partita/plan/network_plan.hpp"

#include "layer_probe.hpp"

namespace partita::test::groups {

namespace {

LayerSpec dense(std::int64_t units, Activation activation) {
  LayerSpec spec;
  spec.dense.units = units;
  spec.activation = activation;
  return spec;
}

LayerSpec group(const std::string& type, const std::vector<LayerSpec>& layers) {
  LayerSpec spec;
  spec.type = type;
  spec.layers = layers;
  return spec;
}

void check(LayerSpec spec, std::int64_t inputs) {
  for (const bool recompute : {false, true}) {
    INFO(spec.type << ", recompute " << recompute);
    spec.recompute = recompute;
    NetworkSection network;
    network.layers = {spec, dense(2, Activation::identity)};
    const LayerPlan plan = planNetwork(network, {inputs}, 2).front();
    Values parameters = normals(plan.parameters(), 7);
    for (double& parameter : parameters)
      parameter *= 0.5; // the deepest chain has ten layers; keeps differences exact
    checkLayer(plan, parameters, normals(rows * inputs, 8));
  }
}

} // namespace

TEST_CASE("A block: several layers in a row", "[gradient]") {
  check(group("block", {dense(5, Activation::tanh), dense(7, Activation::gelu), dense(4, Activation::tanh)}),
        6);
}

TEST_CASE("A residual adds its input", "[gradient]") {
  check(group("residual", {dense(8, Activation::tanh), dense(6, Activation::identity)}), 6);
}

TEST_CASE("A residual with a shortcut, and a function of the sum", "[gradient]") {
  for (const Activation activation : {Activation::tanh, Activation::silu}) {
    LayerSpec spec = group("residual", {dense(8, Activation::gelu), dense(3, Activation::identity)});
    spec.shortcut = {dense(5, Activation::tanh), dense(3, Activation::identity)};
    spec.activation = activation;
    check(spec, 6);
  }
}

TEST_CASE("A penalty on what a residual adds", "[gradient]") {
  constexpr double weight = 0.7;
  constexpr std::int64_t inputs = 6;
  for (const bool recompute : {false, true}) {
    NetworkSection network;
    network.layers = {group("residual", {dense(8, Activation::tanh), dense(inputs, Activation::identity)}),
                      dense(2, Activation::identity)};
    network.layers.front().recompute = recompute;
    const LayerPlan plan = planNetwork(network, {inputs}, 2).front();
    const auto layer = makeLayer(plan);
    LayerProbe probe(*layer, plan);
    probe.setTransport(weight);
    const Values in = normals(rows * inputs, 8), start = normals(plan.parameters(), 7);
    const auto loss = [&](const Values& parameters, const Values& x) {
      double sum = probe.value(parameters, x);
      const Values out = probe.outputs();
      for (std::size_t i = 0; i < x.size(); ++i)
        sum += weight / 2 / inputs * (out[i] - x[i]) * (out[i] - x[i]);
      return sum;
    };
    const Values of_parameters = numericalGradient([&](const Values& p) { return loss(p, in); }, start);
    const Values of_input = numericalGradient([&](const Values& x) { return loss(start, x); }, in);
    probe.value(start, in);
    CHECK(relativeError(probe.backward(), of_input) < gradient_tolerance);
    CHECK(relativeError(probe.gradients(), of_parameters) < gradient_tolerance);
  }
}

TEST_CASE("Groups inside groups, of which some recompute", "[gradient]") {
  LayerSpec inner = group("residual", {dense(9, Activation::gelu), dense(5, Activation::tanh)});
  inner.recompute = true;
  LayerSpec outer = group("residual", {dense(5, Activation::tanh), inner, inner, dense(6, Activation::tanh)});
  check(group("block", {outer, dense(4, Activation::sigmoid)}), 6);
}

} // namespace partita::test::groups
