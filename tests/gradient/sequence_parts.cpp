#include "partita/plan/network_plan.hpp"
#include "partita/plan/parts/part_of_stage.hpp"

#include "layer_probe.hpp"
#include "support/divisions.hpp"

namespace partita::test::sequence_parts {

/// Layers of sequences that parts of a stage share: the gradients of a part, and the sum of what all parts
/// compute.

namespace {

constexpr std::int64_t tokens = 11, positions = 5, width = 15;

/// The layers of a stage that is a whole network.
StagePlan stageOf(const std::vector<LayerSpec>& specs, const Shape& in) {
  NetworkSection network;
  network.layers = specs;
  network.layers.emplace_back();
  StagePlan stage;
  stage.layers = planNetwork(network, in, tokens);
  return stage;
}

StagePlan partOf(const StagePlan& stage, int parts, int part) {
  StrategySection strategy;
  strategy.parts = parts;
  strategy.split = Split::grid;
  return partOfStage(stage, strategy, part);
}

/// The first layer of that type.
const LayerPlan& find(const StagePlan& stage, const std::string& type) {
  for (const LayerPlan& layer : stage.layers)
    if (layer.spec.type == type) return layer;
  throw std::logic_error("no such layer");
}

/// What a part has of the parameters of the whole layer, tensor by tensor.
Values sliced(const LayerPlan& own, const Values& parameters) {
  Values values;
  std::size_t begin = 0;
  for (const ParameterShape& shape : own.whole().parameterShapes()) {
    const std::size_t end = begin + static_cast<std::size_t>(shape.size());
    const Values tensor(parameters.begin() + static_cast<std::ptrdiff_t>(begin),
                        parameters.begin() + static_cast<std::ptrdiff_t>(end));
    for (const ParameterShape& held : own.parameterShapes()) {
      if (held.name != shape.name) continue;
      for (const TensorSlice& slice : own.slicesOf(shape.name, shape.extents)) {
        const Values piece = test::partOf(tensor, slice);
        values.insert(values.end(), piece.begin(), piece.end());
      }
    }
    begin = end;
  }
  return values;
}

/// The outputs of all parts add up to that of the layer, and so do the gradients of their inputs.
void checkSums(const StagePlan& stage, const std::string& type, int parts, const Values& in) {
  const LayerPlan& plan = find(stage, type);
  const Values parameters = normals(plan.parameters(), 5);
  const auto whole = makeLayer(plan);
  const LayerProbe probe(*whole, plan);
  probe.value(parameters, in);
  Values outputs(probe.outputs().size(), 0.0), gradient(in.size(), 0.0);
  for (int part = 0; part < parts; ++part) {
    const StagePlan own_stage = partOf(stage, parts, part);
    const LayerPlan& own = find(own_stage, type);
    const auto layer = makeLayer(own);
    const LayerProbe own_probe(*layer, own);
    own_probe.value(sliced(own, parameters), in);
    const Values added = own_probe.outputs(), back = own_probe.backward();
    for (std::size_t i = 0; i < added.size(); ++i) outputs[i] += added[i];
    for (std::size_t i = 0; i < back.size(); ++i) gradient[i] += back[i];
    const Values wanted = sliced(own, (probe.backward(), probe.gradients()));
    // A part whose tokens do not occur has a gradient of zeros.
    CHECK((own_probe.gradients() == wanted ||
           relativeError(own_probe.gradients(), wanted) < gradient_tolerance));
  }
  CHECK(relativeError(outputs, probe.outputs()) < gradient_tolerance);
  if (type == "attention") CHECK(relativeError(gradient, probe.backward()) < gradient_tolerance);
}

} // namespace

TEST_CASE("Some heads of attention", "[gradient][parts]") {
  LayerSpec attention;
  attention.type = "attention";
  attention.attention.heads = 5;
  for (const bool bias : {true, false}) {
    attention.attention.bias = bias;
    const StagePlan stage = stageOf({attention}, {positions, width});
    const Values in = normals(rows * positions * width, 6);
    for (const int parts : {2, 3}) {
      checkSums(stage, "attention", parts, in);
      for (int part = 0; part < parts; ++part) {
        const StagePlan own_stage = partOf(stage, parts, part);
        const LayerPlan& own = find(own_stage, "attention");
        checkLayer(own, normals(own.parameters(), 5), in);
      }
    }
  }
}

TEST_CASE("Some rows of an embedding", "[gradient][parts]") {
  LayerSpec embedding;
  embedding.type = "embedding";
  embedding.embedding.width = width;
  embedding.embedding.positions = true;
  Values in;
  for (std::int64_t i = 0; i < rows * positions; ++i) in.push_back(static_cast<double>(i * i * 3 % tokens));
  const StagePlan stage = stageOf({embedding}, {positions});
  for (const int parts : {2, 3, 5, 7}) checkSums(stage, "embedding", parts, in);
}

} // namespace partita::test::sequence_parts
