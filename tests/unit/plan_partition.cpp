#include "partita/plan/grid_plan.hpp"
#include "partita/plan/network_plan.hpp"

#include "data_files.hpp"
#include "support/catch.hpp"

using namespace partita;
using test::messageOf;

namespace {

/// 784-256x5-47 cut into stages.
RunConfig bigConfig(std::int64_t stages) {
  RunConfig config;
  LayerSpec hidden;
  hidden.units = 256;
  hidden.activation = Activation::relu;
  hidden.repeat = 5;
  config.network.layers = {hidden, LayerSpec{}};
  config.strategy.kind = StrategyKind::sil;
  config.strategy.stages = stages;
  return config;
}

Partition cut(const RunConfig& config) {
  return planPartition(config, planNetwork(config.network, {784}, 47), 47);
}

constexpr double first_layer = 2.0 * 784 * 256, hidden_layer = 2.0 * 256 * 256, last_layer = 2.0 * 256 * 47;

} // namespace

TEST_CASE("Joint training is one stage without a gradient of its input", "[plan]") {
  RunConfig config = bigConfig(4);
  config.strategy.kind = StrategyKind::joint;
  const Partition partition = cut(config);
  REQUIRE(partition.stages.size() == 1);
  CHECK(partition.cuts.empty());
  CHECK(partition.stages[0].parameters() == 476207);
  CHECK(partition.stages[0].forwardFlops() == first_layer + 4 * hidden_layer + last_layer);
  CHECK(partition.joint_flops == 2 * first_layer + 12 * hidden_layer + 3 * last_layer);
  CHECK(partition.local_flops == std::vector<double>{partition.joint_flops});
  CHECK(partition.allowedSpeedup() == 1.0);
}

TEST_CASE("A cut by FLOPs counts the local loss and the missing input gradient", "[plan]") {
  const Partition partition = cut(bigConfig(2));
  CHECK(partition.cuts == std::vector<std::int64_t>{2});
  CHECK(partition.local_flops[0] == 2 * first_layer + 3 * hidden_layer + 2 * last_layer);
  // The first dense layer of a stage needs no input gradient, the entrance activation costs nothing.
  CHECK(partition.local_flops[1] == 2 * hidden_layer + 3 * 2 * hidden_layer + 3 * last_layer);
  CHECK(partition.allowedSpeedup() == partition.joint_flops / partition.local_flops[0]);
  CHECK(partition.allowedSpeedup() == Approx(1.967).margin(0.001));
}

TEST_CASE("Free training with mixtures pays for its synthetic input", "[plan]") {
  RunConfig config = bigConfig(2);
  const double relay = cut(config).local_flops[1];
  config.strategy.input = StageInput::free;
  CHECK(cut(config).local_flops[1] == relay + last_layer);
  config.strategy.mixture = Switch::off;
  CHECK(cut(config).local_flops[1] == relay);
}

TEST_CASE("A pipeline knows no labels, and gradients leave its stages", "[plan]") {
  RunConfig config = bigConfig(3);
  config.strategy.kind = StrategyKind::pipeline;
  const Partition partition = cut(config);
  REQUIRE(partition.stages.size() == 3);
  double sum = 0.0;
  for (const StagePlan& stage : partition.stages) {
    CHECK_FALSE(stage.entrance);
    CHECK(stage.layers.back().spec.activation == (stage.last() ? Activation::identity : Activation::relu));
    sum += partition.local_flops[static_cast<std::size_t>(stage.index)];
  }
  CHECK(sum == partition.joint_flops); // the same work, shared out
  CHECK(partition.joint_flops == 2 * first_layer + 12 * hidden_layer + 3 * last_layer);
  CHECK(partition.cuts == std::vector<std::int64_t>{1, 3});
  config.network.layers[0].units = 16; // fewer than there are classes
  CHECK(cut(config).stages.size() == 3);
}

TEST_CASE("A pipeline keeps as many activations as are live", "[plan]") {
  RunConfig config = bigConfig(3);
  config.strategy.kind = StrategyKind::pipeline;
  config.training.batch = 128;
  config.strategy.microbatches = 8;
  const Partition partition = cut(config);
  const GridPlan grid = planGrid(config.strategy, partition, 6); // two replicas
  const auto loads = [&] {
    std::vector<std::int64_t> live;
    for (int stage = 0; stage < 3; ++stage) live.push_back(stageLoad(config, partition, grid, stage).live);
    return live;
  };
  CHECK(loads() == std::vector<std::int64_t>{6, 6, 1});
  config.strategy.schedule = PipelineSchedule::one_f_one_b;
  CHECK(loads() == std::vector<std::int64_t>{3, 2, 1});
  const StageLoad first = stageLoad(config, partition, grid, 0),
                  middle = stageLoad(config, partition, grid, 1);
  CHECK(first.rows == 8);
  CHECK(first.messages == 256 * (3 + 2));                      // sent onward, received back
  CHECK(middle.messages == 256 * (1 + 1 + 3) + 256 * (2 + 2)); // and its gradient, one ahead, sent back
  const StagePlan& plan = partition.stages[0];
  CHECK(stageMemory(plan, config, first, 4).activations ==
        4 * 8 * (3 * plan.activationValues() + 2 * plan.widest() + first.messages));
}

TEST_CASE("A cut by memory makes the largest stage as small as it can be", "[plan]") {
  RunConfig config = bigConfig(2);
  config.strategy.cut_rule = CutRule::memory;
  const auto largest = [&](const Partition& partition) {
    std::int64_t most = 0;
    for (const StagePlan& stage : partition.stages)
      most = std::max(most, stageMemory(stage, config, {config.training.batch}, 4).total());
    return most;
  };
  const std::int64_t chosen = largest(cut(config));
  config.strategy.cut_rule = CutRule::list;
  std::int64_t least = chosen;
  for (std::int64_t first = 1; first < 6; ++first) {
    config.strategy.cuts = {first};
    least = std::min(least, largest(cut(config)));
  }
  CHECK(chosen == least);
}

TEST_CASE("Cuts given as a list are taken, or refused", "[plan]") {
  RunConfig config = bigConfig(3);
  config.strategy.cut_rule = CutRule::list;
  config.strategy.cuts = {1, 5};
  const Partition partition = cut(config);
  CHECK(partition.stages[0].outputs() == 256);
  CHECK(partition.stages[1].parameters() == 4 * (256 * 256 + 256));
  CHECK(partition.stages[2].outputs() == 47);
  const std::string wrong =
      "strategy/cuts: each of the 3 stages needs at least one of the 6 layers; cuts count "
      "layers from 0 and increase";
  for (const std::vector<std::int64_t>& cuts :
       {std::vector<std::int64_t>{0, 3}, {3, 3}, {4, 2}, {2, 6}, {2, 7}}) {
    config.strategy.cuts = cuts;
    CHECK(messageOf([&] { cut(config); }) == wrong);
  }
  CHECK(messageOf([] { cut(bigConfig(7)); }) ==
        "strategy/stages: 7 stages need as many layers, the network has 6");
}

TEST_CASE("An entrance activation stands only where a cut is matched before its activation", "[plan]") {
  RunConfig config = bigConfig(2);
  config.strategy.labels = LabelKind::orthogonal; // signed: before
  const Partition before = cut(config);
  CHECK(before.stages[0].layers.back().spec.activation == Activation::identity);
  const LayerPlan& entrance = before.stages[1].layers.front();
  CHECK(entrance.spec.type == "activation");
  CHECK(entrance.spec.activation == Activation::relu);
  CHECK(entrance.inputs() == 256);
  CHECK(entrance.outputs() == 256);
  CHECK(before.stages[1].layers.back().spec.activation == Activation::identity);

  config.strategy.labels = LabelKind::uniform; // not negative: after
  const Partition after = cut(config);
  CHECK(after.stages[0].layers.back().spec.activation == Activation::relu);
  CHECK(after.stages[1].layers.front().spec.type == "dense");

  config.strategy.match = Match::before;
  CHECK(cut(config).stages[1].layers.front().spec.type == "activation");

  config.network.layers[0].activation = Activation::identity; // nothing to move
  CHECK(cut(config).stages[1].layers.front().spec.type == "dense");
}

TEST_CASE("Every kind of labels has its side of the activation", "[plan]") {
  StrategySection strategy;
  strategy.kind = StrategyKind::sil;
  for (const LabelKind kind : {LabelKind::uniform, LabelKind::binary, LabelKind::sparse, LabelKind::block}) {
    strategy.labels = kind;
    CHECK_FALSE(matchedBefore(strategy, 3));
  }
  for (const LabelKind kind :
       {LabelKind::centred, LabelKind::gaussian, LabelKind::sign, LabelKind::orthogonal, LabelKind::etf}) {
    strategy.labels = kind;
    CHECK(matchedBefore(strategy, 3));
  }
  strategy.match = Match::after;
  CHECK_FALSE(matchedBefore(strategy, 3));
}

TEST_CASE("Orthogonal labels need as many units as classes", "[plan]") {
  RunConfig config = bigConfig(2);
  config.network.layers[0].units = 32;
  for (const LabelKind kind : {LabelKind::orthogonal, LabelKind::etf, LabelKind::block}) {
    config.strategy.labels = kind;
    CHECK(
        messageOf([&] { cut(config); }) ==
        "strategy/labels: orthogonal, etf and block labels need at least as many units at a cut as there are "
        "classes; stage 1 ends with 32 units for 47 classes (choose gaussian, sign or uniform, or another "
        "cut)");
  }
  config.strategy.labels = LabelKind::gaussian;
  CHECK(cut(config).stages.size() == 2);
}

TEST_CASE("Memory of a stage", "[plan]") {
  RunConfig config = bigConfig(2);
  const StagePlan stage = cut(config).stages[0]; // 784-256-256
  const std::int64_t bytes = (784 * 256 + 256 + 256 * 256 + 256) * 4;
  const StageMemory memory = stageMemory(stage, config, {128}, 4);
  CHECK(memory.parameters == bytes);
  CHECK(memory.gradients == bytes);
  CHECK(memory.optimiser == 2 * bytes);
  CHECK(memory.activations == (784 + 256 + 256 + 2 * 256) * 128 * 4);
  CHECK(memory.total() == 4 * bytes + memory.activations);
  config.optimiser.kind = OptimiserKind::sgd;
  CHECK(stageMemory(stage, config, {128}, 8).optimiser == 2 * bytes); // one moment in double
  config.optimiser.momentum = 0.0;
  CHECK(stageMemory(stage, config, {128}, 4).optimiser == 0);
}
