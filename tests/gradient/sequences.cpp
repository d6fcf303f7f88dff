#include "partita/plan/network_plan.hpp"

#include "layer_probe.hpp"

namespace partita::test::sequences {

namespace {

LayerSpec layer(const std::string& type, std::int64_t heads = 1) {
  LayerSpec spec;
  spec.type = type;
  spec.attention.heads = heads;
  return spec;
}

/// The plan of a layer that gets sequences.
LayerPlan planOf(const LayerSpec& spec, std::int64_t positions, std::int64_t width) {
  NetworkSection network;
  network.layers = {spec, LayerSpec()};
  return planNetwork(network, {positions, width}, 2).front();
}

void check(const LayerSpec& spec, std::int64_t positions, std::int64_t width) {
  INFO(spec.type << ", " << positions << " positions of " << width << ", " << spec.attention.heads
                 << " heads");
  const LayerPlan plan = planOf(spec, positions, width);
  checkLayer(plan, normals(plan.parameters(), 5), normals(rows * plan.inputs(), 6));
}

/// Tokens 0 .. tokens - 1, each of which occurs.
Values someTokens(std::int64_t count, std::int64_t tokens) {
  Values values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i * 7 % 5 * i % tokens));
  return values;
}

} // namespace

TEST_CASE("Norms of the positions of a sequence", "[gradient]") {
  for (const char* type : {"layer-norm", "rms-norm"}) {
    check(layer(type), 4, 7);
    check(layer(type), 2, 37); // more than two SIMD blocks, and a remainder
    check(layer(type), 9, 16); // values that devices read together
    for (const std::int64_t width : {768, 1536}) check(layer(type), 1, width); // much of a team's scratch
    LayerSpec spec = layer(type);
    spec.norm.epsilon = 0.5; // which counts
    check(spec, 3, 5);
  }
}

TEST_CASE("Attention within one tile and over several, heads of any width", "[gradient]") {
  check(layer("attention"), 1, 3);
  check(layer("attention", 2), 9, 6);
  check(layer("attention", 1), 6, 18);
  LayerSpec bare = layer("attention", 2);
  bare.attention.bias = false;
  check(bare, 5, 4);
}

TEST_CASE("Attention over several tiles of keys", "[gradient]") {
  const LayerPlan plan = planOf(layer("attention", 2), 131, 4);
  const auto made = makeLayer(plan);
  const LayerProbe probe(*made, plan);
  const Values parameters = normals(plan.parameters(), 5), in = normals(rows * plan.inputs(), 6),
               direction = normals(rows * plan.inputs(), 7);
  const Values slope = numericalGradient(
      [&](const Values& step) {
        Values moved = in;
        for (std::size_t i = 0; i < in.size(); ++i) moved[i] += step[0] * direction[i];
        return probe.value(parameters, moved);
      },
      {0.0});
  probe.value(parameters, in);
  CHECK(std::abs(dot(probe.backward(), direction) - slope[0]) < 1e-8 * std::abs(slope[0]));
  const Values numerical = numericalGradient([&](const Values& p) { return probe.value(p, in); }, parameters);
  probe.value(parameters, in);
  probe.backward();
  CHECK(relativeError(probe.gradients(), numerical) < gradient_tolerance);
}

TEST_CASE("Dropout passes gradients where it passes values", "[gradient]") {
  LayerSpec spec = layer("dropout");
  spec.dropout.rate = 0.4;
  check(spec, 3, 11);
}

TEST_CASE("The tables of an embedding", "[gradient]") {
  constexpr std::int64_t tokens = 6, positions = 4;
  for (const bool second : {true, false}) {
    NetworkSection network;
    LayerSpec spec = layer("embedding");
    spec.embedding.width = 5;
    spec.embedding.positions = second;
    network.layers = {spec, LayerSpec()};
    const LayerPlan plan = planNetwork(network, {positions}, tokens).front();
    CHECK(plan.parameters() == (tokens + (second ? positions : 0)) * 5);
    const auto made = makeLayer(plan);
    const LayerProbe probe(*made, plan);
    const Values parameters = normals(plan.parameters(), 5), in = someTokens(rows * positions, tokens);
    const Values numerical =
        numericalGradient([&](const Values& p) { return probe.value(p, in); }, parameters);
    probe.value(parameters, in);
    probe.backward();
    CHECK(relativeError(probe.gradients(), numerical) < gradient_tolerance);
    const Values once = probe.gradients();
    probe.backward(true); // the same batch again
    Values twice = once;
    for (double& value : twice) value *= 2.0;
    CHECK(relativeError(probe.gradients(), twice) < 1e-14);
  }
}

TEST_CASE("Gradients of all sequence layers add up over microbatches", "[gradient]") {
  for (const LayerSpec& spec : {layer("attention", 2), layer("layer-norm"), layer("rms-norm")}) {
    INFO(spec.type);
    const LayerPlan plan = planOf(spec, 5, 4);
    const auto made = makeLayer(plan);
    const LayerProbe probe(*made, plan);
    const Values parameters = normals(plan.parameters(), 5);
    Values sum(parameters.size(), 0.0);
    for (const std::uint64_t seed : {6, 7}) {
      probe.value(parameters, normals(rows * plan.inputs(), seed));
      probe.backward();
      const Values own = probe.gradients();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
    }
    probe.value(parameters, normals(rows * plan.inputs(), 6));
    probe.backward();
    probe.value(parameters, normals(rows * plan.inputs(), 7));
    probe.backward(true);
    CHECK(relativeError(probe.gradients(), sum) < 1e-14);
  }
}

} // namespace partita::test::sequences
