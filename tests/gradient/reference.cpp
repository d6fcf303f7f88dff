#include "partita/nn/loss.hpp"
#include "partita/nn/stage.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/partition.hpp"

#include <fstream>
#include <map>

#include "layer_probe.hpp"
#include "support/source_directory.hpp"

namespace partita::test::reference {

namespace {

constexpr double tolerance = 1e-12; // both compute in double

/// A file of tests/reference, with the results of PyTorch.
std::map<std::string, Values> reference(const std::string& name) {
  std::ifstream file(sourceDirectory() + "/tests/reference/" + name);
  std::map<std::string, Values> entries;
  std::string entry;
  for (std::size_t count = 0; file >> entry >> count;) {
    Values values(count);
    for (double& value : values) file >> value;
    entries[entry] = values;
  }
  REQUIRE(entries.size() == 6);
  return entries;
}

LayerSpec layer(const std::string& type) {
  LayerSpec spec;
  spec.type = type;
  return spec;
}

LayerSpec dense(std::int64_t units, Activation activation = Activation::identity) {
  LayerSpec spec;
  spec.dense.units = units;
  spec.activation = activation;
  return spec;
}

LayerSpec attention() {
  LayerSpec spec = layer("attention");
  spec.attention.heads = 2;
  return spec;
}

/// Two blocks of width 6 for 7 tokens; the head shares the table of the embedding.
NetworkSection smallGpt() {
  NetworkSection network;
  LayerSpec embedding = layer("embedding"), first = layer("residual"), second = layer("residual"),
            block = layer("block"), head;
  embedding.embedding.width = 6;
  embedding.embedding.positions = true;
  first.layers = {layer("layer-norm"), attention()};
  second.layers = {layer("layer-norm"), dense(24, Activation::gelu), dense(6)};
  block.layers = {first, second};
  block.repeat = 2;
  head.dense.tied = true;
  network.layers = {embedding, block, layer("layer-norm"), head};
  return network;
}

} // namespace

TEST_CASE("Attention is that of PyTorch, forward and backward", "[gradient]") {
  auto torch = reference("attention.txt");
  NetworkSection network;
  network.layers = {attention(), LayerSpec()};
  const LayerPlan plan = planNetwork(network, {7, 6}, 2).front();
  const Vector parameters = vectorOf(asStored({plan}, torch["parameters"])),
               gradients("partita::test::gradients", parameters.size());
  const auto made = makeLayer(plan);
  made->bind({parameters, gradients});
  const Matrix in = matrixOf(3, 42, torch["in"]), out = makeMatrix("partita::test::out", 3, 42),
               saved = makeMatrix("partita::test::saved", 3, plan.savedValues()),
               grad_in = makeMatrix("partita::test::grad_in", 3, 42);
  Pass pass;
  pass.work = Vector("partita::test::work", static_cast<std::size_t>(plan.workValues(3)));
  made->forward(space, pass, in, out, saved);
  CHECK(relativeError(valuesOf(out), torch["out"]) < tolerance);
  made->backward(space, pass, in, out, saved, matrixOf(3, 42, torch["grad_out"]), grad_in);
  CHECK(relativeError(valuesOf(grad_in), torch["grad_in"]) < tolerance);
  CHECK(relativeError(packedOf({plan}, valuesOf(gradients)), torch["gradients"]) < tolerance);
}

TEST_CASE("A small GPT is that of PyTorch, its loss and all gradients", "[gradient]") {
  auto torch = reference("gpt.txt");
  RunConfig config;
  config.network = smallGpt();
  for (const bool recompute : {false, true}) {
    config.network.layers[1].recompute = recompute;
    const Partition partition = planPartition(config, planNetwork(config.network, {5}, 7), 7);
    const std::vector<LayerPlan>& layers = partition.stages.front().layers;
    Stage stage(partition.stages.front(), asStored(layers, torch["parameters"]), 3);
    Tape tape = stage.makeTape(3);
    const Matrix in = matrixOf(3, 5, torch["in"]);
    const Matrix logits = stage.forward(space, {}, in, tape).real();
    CHECK(relativeError(valuesOf(logits), torch["out"]) < tolerance);
    Score score(15);
    const Matrix grad = stage.outputGradient(3);
    const Labels labels = labelsOf({torch["labels"].begin(), torch["labels"].end()});
    makeCrossEntropy(0.0)->evaluate(space, logits, {labels, Matrix()}, 1.0 / 3.0, grad, score);
    CHECK(std::abs(score.take(space).meanLoss() - torch["loss"][0]) < tolerance);
    stage.backward(space, {}, in, tape, grad, Matrix());
    CHECK(relativeError(packedOf(layers, valuesOf(stage.gradients())), torch["gradients"]) < tolerance);
  }
}

} // namespace partita::test::reference
