#include "partita/plan/network_plan.hpp"
#include "partita/plan/partition.hpp"
#include "partita/plan/stage_memory.hpp"

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::plan_sequences {

namespace {

LayerSpec layer(const std::string& type) {
  LayerSpec spec;
  spec.type = type;
  return spec;
}

LayerSpec dense(std::int64_t units) {
  LayerSpec spec;
  spec.dense.units = units;
  return spec;
}

/// Blocks of a GPT between its embedding and its head.
NetworkSection gpt(std::int64_t width, std::int64_t heads, std::int64_t blocks, bool tied) {
  LayerSpec embedding = layer("embedding"), first = layer("residual"), second = layer("residual"),
            block = layer("block"), attention = layer("attention"), head;
  embedding.embedding.width = width;
  embedding.embedding.positions = true;
  attention.attention.heads = heads;
  first.layers = {layer("layer-norm"), attention};
  second.layers = {layer("layer-norm"), dense(4 * width), dense(width)};
  block.layers = {first, second};
  block.repeat = blocks;
  head.dense.tied = tied;
  head.dense.bias = !tied;
  NetworkSection network;
  network.layers = {embedding, block, layer("layer-norm"), head};
  return network;
}

RunConfig cutInTwo(const NetworkSection& network, std::int64_t cut) {
  RunConfig config;
  config.network = network;
  config.strategy.kind = StrategyKind::sil;
  config.strategy.stages = 2;
  config.strategy.sil.labels = LabelKind::orthogonal;
  config.strategy.cut_rule = CutRule::list;
  config.strategy.cuts = {cut};
  return config;
}

Partition partitionOf(const RunConfig& config, std::int64_t positions, std::int64_t tokens) {
  return planPartition(config, planNetwork(config.network, {positions}, tokens), tokens);
}

std::string messageOfPlan(const std::vector<LayerSpec>& layers, const Shape& input) {
  NetworkSection network;
  network.layers = layers;
  return messageOf([&] { planNetwork(network, input, 9); });
}

} // namespace

TEST_CASE("GPT-2 has as many parameters as its authors say", "[plan]") {
  CHECK(countParameters(planNetwork(gpt(768, 12, 12, true), {1024}, 50257)) == 124439808);
  CHECK(countParameters(planNetwork(gpt(1024, 16, 24, true), {1024}, 50257)) == 354823168);
}

TEST_CASE("Shapes and costs of a network on tokens", "[plan]") {
  const auto layers = planNetwork(gpt(8, 2, 2, false), {5}, 11);
  CHECK(layers.front().out == Shape{5, 8});
  CHECK(layers.back().out == Shape{5, 11});
  const LayerPlan& attention = layers[1].body[0].body[1];
  CHECK(attention.name() == "layer1.0.1.attention");
  CHECK(attention.parameters() == 4 * 8 * 8 + 4 * 8);
  CHECK(attention.forwardFlops() == 5 * (2.0 * 4 * 8 * 8) + 2.0 * 2 * 8 * (1 + 2 + 3 + 4 + 5));
  CHECK(attention.weightFlops() == 5 * (2.0 * 4 * 8 * 8));
  CHECK(attention.savedValues() == 5 * (3 * 8 + 8) + 5 * 2);
  CHECK(layers.back().weightFlops() == 2.0 * 5 * 8 * 11);
}

TEST_CASE("Layers of sequences that do not fit are refused", "[plan]") {
  LayerSpec embedding = layer("embedding"), attention = layer("attention");
  embedding.embedding.width = 6;
  attention.attention.heads = 4;
  const std::string entry = "network/layers[0]";
  CHECK(messageOfPlan({embedding, dense(0)}, {3, 4}) ==
        entry + ": an embedding takes the tokens of the data, so it must be the first layer");
  CHECK(messageOfPlan({embedding, embedding, dense(0)}, {3}) ==
        "network/layers[1]: an embedding takes the tokens of the data, so it must be the first layer");
  CHECK(messageOfPlan({attention, dense(0)}, {24}) ==
        entry + ": attention needs a sequence of positions, not a sample of shape 24");
  CHECK(messageOfPlan({attention, dense(0)}, {3, 6}) ==
        entry + ": a width of 6 cannot be divided among 4 heads of at most 256");
  CHECK(messageOfPlan({attention, dense(0)}, {3, 4 * 300}) ==
        entry + ": a width of 1200 cannot be divided among 4 heads of at most 256");
}

TEST_CASE("A tied layer needs its embedding, of its size and in its stage", "[plan]") {
  LayerSpec tied = dense(0), embedding = layer("embedding");
  tied.dense.tied = true;
  embedding.embedding.width = 6;
  CHECK(messageOfPlan({dense(4), tied}, {4}) ==
        "network/layers[1] is tied, but the network has no embedding");
  CHECK(messageOfPlan({embedding, dense(5), tied}, {4}) ==
        "network/layers[2]: a tied layer needs as many units as there are tokens, 9, and as many "
        "inputs as the "
        "embedding is wide, 6");
  LayerSpec square = tied; // as wide as the embedding, so that another layer may follow
  square.dense.units = 9;
  embedding.embedding.width = 9;
  CHECK(messageOfPlan({embedding, square, tied}, {4}) ==
        "network/layers[2] is tied, but an earlier layer is tied already");
  const RunConfig config = cutInTwo(gpt(16, 2, 4, true), 3);
  CHECK(messageOf([&] { partitionOf(config, 8, 9); }) ==
        "network/layers[3] is tied to the embedding, which is in another stage; remove `tied`");
}

TEST_CASE("Of a large matrix of 16 bits only a panel is in float", "[plan]") {
  if (plans_for_device) return; // its panels are larger than this matrix
  constexpr std::int64_t positions = 8, tokens = 100000, width = 16;
  RunConfig config;
  config.run.precision = Precision::bf16;
  for (const bool tied : {true, false}) {
    config.network = gpt(width, 2, 4, tied);
    config.network.layers.back().dense.bias = true;
    const StagePlan stage = partitionOf(config, positions, tokens).stages.front();
    CHECK(stage.mostParameters() == tokens * width + (tied ? positions * width : tokens));
    CHECK(stage.halfScratch(1) == panel_values + tokens); // the head has more small ones than the embedding
  }
  CHECK(panelRows(10, 2 * panel_values) == 1);
  CHECK(panelRows(10, panel_values / 3) == 3);
  CHECK(panelRows(2, panel_values / 3) == 2);
}

TEST_CASE("With 16 bits and offload a device has four bytes a parameter, and buckets", "[plan]") {
  RunConfig config;
  config.run.precision = Precision::bf16;
  config.optimiser.kind = OptimiserKind::adam;
  config.optimiser.offload = Offload::file;
  config.network = gpt(768, 12, 12, true);
  const StagePlan stage = partitionOf(config, 1024, 50257).stages.front(); // 38.6 million belong to one table
  const StageMemory memory = stageMemory(stage, config, StagePlace(), DeviceKind());
  const std::int64_t model =
      memory.parameters + memory.gradients + memory.optimiser + 8 * stage.halfScratch(1);
  CHECK(model <= 4 * stage.storedValues() + 48 * config.optimiser.offload_bucket +
                     (plans_for_device ? 8 * panel_values : 0));
  CHECK(stage.mostParameters() > 3 * config.optimiser.offload_bucket);
  CHECK(memory.offloaded == 12 * stage.storedValues());
}

TEST_CASE("Cuts of a network on tokens have labels of a position's width", "[plan]") {
  const Partition partition = partitionOf(cutInTwo(gpt(16, 2, 4, false), 3), 8, 9);
  for (const StagePlan& stage : partition.stages) CHECK(stage.positions == 8);
  CHECK(partition.stages[0].outputs() == 8 * 16);
  CHECK(partition.stages[0].labelWidth() == 16);
  CHECK(partition.stages[1].labelWidth() == 9);
  // Orthogonal labels: the width of a position counts, not that of the sample.
  CHECK(messageOf([] {
          partitionOf(cutInTwo(gpt(16, 2, 4, false), 3), 8, 17);
        }).find("16 units for 17 classes") != std::string::npos);
}

} // namespace partita::test::plan_sequences
