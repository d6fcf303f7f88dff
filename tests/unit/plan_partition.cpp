#include "partita/config/user_error.hpp"
#include "partita/plan/balanced_cuts.hpp"
#include "partita/plan/grid_plan.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <limits>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::plan_partition {

namespace {

/// 784-256x5-47 cut into stages with fixed labels.
RunConfig bigConfig(std::int64_t stages) {
  RunConfig config;
  LayerSpec hidden;
  hidden.dense.units = 256;
  hidden.activation = Activation::relu;
  hidden.repeat = 5;
  config.network.layers = {hidden, LayerSpec{}};
  config.strategy.kind = StrategyKind::sil;
  config.strategy.stages = stages;
  config.strategy.sil.labels = LabelKind::orthogonal;
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
  CHECK(partition.joint.flops == 2 * first_layer + 12 * hidden_layer + 3 * last_layer);
  REQUIRE(partition.local.size() == 1);
  CHECK(partition.local[0].total() == partition.joint.total());
  CHECK(partition.allowedSpeedup() == 1.0);
}

TEST_CASE("A cut by FLOPs counts the local loss and the missing input gradient", "[plan]") {
  const Partition partition = cut(bigConfig(2));
  CHECK(partition.cuts == std::vector<std::int64_t>{2});
  CHECK(partition.local[0].flops == 2 * first_layer + 3 * hidden_layer + 2 * last_layer);
  // The first dense layer of a stage needs no input gradient; the entrance activation costs nothing.
  CHECK(partition.local[1].flops == 2 * hidden_layer + 3 * 2 * hidden_layer + 3 * last_layer);
  CHECK(partition.allowedSpeedup() == partition.joint.total() / partition.local[0].total());
  CHECK(partition.allowedSpeedup() == Approx(2.003).margin(0.001));
}

TEST_CASE("Free training with mixtures pays for its synthetic input", "[plan]") {
  RunConfig config = bigConfig(2);
  const double relay = cut(config).local[1].flops;
  config.strategy.sil.input = StageInput::free;
  CHECK(cut(config).local[1].flops == relay + last_layer);
  config.strategy.sil.mixture = Switch::off;
  CHECK(cut(config).local[1].flops == relay);
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
    sum += partition.local[static_cast<std::size_t>(stage.index)].flops;
  }
  CHECK(sum == partition.joint.flops); // the same total work
  CHECK(partition.joint.flops == 2 * first_layer + 12 * hidden_layer + 3 * last_layer);
  CHECK(partition.cuts == std::vector<std::int64_t>{1, 3});
  config.network.layers[0].dense.units = 16; // fewer than the number of classes
  CHECK(cut(config).stages.size() == 3);
}

TEST_CASE("A pipeline keeps as many activations as are live", "[plan]") {
  RunConfig config = bigConfig(3);
  config.strategy.kind = StrategyKind::pipeline;
  config.training.batch = 128;
  config.strategy.pipeline.microbatches = 8;
  const Partition partition = cut(config);
  const GridPlan grid = planGrid(config.strategy, partition, 6); // two replicas
  const auto live = [&] {
    std::vector<std::int64_t> all;
    for (int group = 0; group < 3; ++group)
      all.push_back(StageRows(config.strategy, {group, 3, 2}, config.training.batch).live);
    return all;
  };
  CHECK(live() == std::vector<std::int64_t>{6, 6, 1});
  config.strategy.pipeline.schedule = PipelineSchedule::one_f_one_b;
  CHECK(live() == std::vector<std::int64_t>{3, 2, 1});
  const std::int64_t rows = 8; // of a microbatch
  const auto activations = [&](int stage, std::int64_t kept) {
    const StagePlan& plan = partition.stages[static_cast<std::size_t>(stage)];
    return 4 * rows * (kept * plan.keptValues() + 2 * plan.widest() + 2);
  };
  const StageMemory first = stageMemory(config, partition, grid, 0),
                    middle = stageMemory(config, partition, grid, 1),
                    last = stageMemory(config, partition, grid, 2);
  CHECK(first.activations == activations(0, 3));
  CHECK(middle.activations == activations(1, 2));
  CHECK(last.activations == activations(2, 1));
  // Batches of features and labels, sent onward, received back; then the gradient of the input, received with
  // one ahead, sent back.
  CHECK(first.buffers == 4 * rows * ((3 + 2) * (784 + 1) + 256 * (3 + 2)));
  CHECK(middle.buffers == 4 * rows * ((2 + 2) + 256 * (1 + (2 + 1) + 3) + 256 * (2 + 2)));
  CHECK(last.buffers == 4 * rows * ((1 + 2) + 256 * (1 + (1 + 1) + 2)));
}

TEST_CASE("Contents of device memory depend on the path of messages", "[plan]") {
  RunConfig config = bigConfig(2);
  config.strategy.kind = StrategyKind::pipeline;
  config.training.batch = 16;
  config.strategy.queue = 3;
  config.data.prefetch = 2;
  const StagePlan last = cut(config).stages[1];
  const StagePlace place{1, 2, 2};
  const auto planned = [&](const DeviceKind& device) { return stageMemory(last, config, place, device); };
  constexpr std::int64_t rows = 8, value = 4 * rows * 256;
  const std::int64_t gradients = last.storedValues();
  const StageMemory host = planned({4, true, false, false}), staged = planned({4, true, true, true}),
                    direct = planned({4, false, false, false}), device = planned({4, false, true, true});
  CHECK(host.buffers == 3 * 4 * rows + value * (1 + 2 + 1));    // two received, one sent back
  CHECK(staged.buffers == host.buffers + value);                // received values are copied
  CHECK(direct.buffers == host.buffers - 4 * rows);             // one batch arrives; hosts prepare two
  CHECK(device.buffers == 2 * 4 * rows + value * (1 + 1));      // the rest is pinned
  CHECK(device.evaluation == direct.evaluation - 2 * value);    // a queue of three there, a copy here
  const std::int64_t bucket = config.strategy.bucket_kib * 256; // values; each of two ranks receives half
  REQUIRE((gradients > 3 * bucket && gradients <= 4 * bucket));
  const std::int64_t received = 4 * (bucket / 2 + 1);
  CHECK(host.gradients == 4 * (gradients + received));
  CHECK(staged.gradients == host.gradients + 4 * gradients); // summed in a copy
  CHECK(device.gradients == 4 * gradients);
  config.strategy.wire = Wire::bf16; // half as large, and converted
  CHECK(planned({4, true, false, false}).buffers == 3 * 4 * rows + value + 3 * value / 2 + value);
  CHECK(planned({4, true, false, false}).gradients ==
        (4 + 2) * gradients + 2 * 2 * (bucket + 1)); // two buckets of twice as many values
  const auto gradientsOnDevice = [&](bool sums) { return planned({4, false, true, true, sums}).gradients; };
  CHECK(gradientsOnDevice(false) == 4 * gradients);
  CHECK(gradientsOnDevice(true) == (4 + 2) * gradients); // the copy that devices add up is there as well
  config.strategy.wire = Wire::single;
  CHECK(gradientsOnDevice(true) == 4 * gradients);
}

TEST_CASE("Checkpoints need a copy of all that they write, except on devices", "[plan]") {
  RunConfig config = bigConfig(1);
  const auto copied = [&](OptimiserKind optimiser, StrategyKind strategy, OuterStep outer, bool host) {
    config.optimiser.kind = optimiser;
    config.optimiser.momentum = 0.9;
    config.strategy.kind = strategy;
    config.strategy.local_sgd.outer = outer;
    const StagePlan stage = cut(config).stages[0];
    const auto buffers = [&](std::int64_t every) {
      config.checkpoint.every = every;
      return stageMemory(stage, config, {0, 1, 2}, {4, host, !host, !host}).buffers;
    };
    REQUIRE(stage.storedValues() > 0);
    return static_cast<double>(buffers(10) - buffers(0)) / static_cast<double>(4 * stage.storedValues());
  };
  constexpr auto joint = StrategyKind::joint, local = StrategyKind::local_sgd;
  CHECK(copied(OptimiserKind::adamw, joint, OuterStep::average, true) == 3); // parameters and two moments
  CHECK(copied(OptimiserKind::sgd, joint, OuterStep::average, true) == 2);
  CHECK(copied(OptimiserKind::adamw, local, OuterStep::average, true) == 4); // and those of the last meeting
  CHECK(copied(OptimiserKind::adamw, local, OuterStep::nesterov, true) == 5);
  CHECK(copied(OptimiserKind::adamw, local, OuterStep::nesterov, false) == 0);
}

TEST_CASE("In a run of 16 bits, messages and the gradient of the input take half the memory",
          "[plan][half]") {
  RunConfig config = bigConfig(2);
  config.strategy.kind = StrategyKind::pipeline;
  config.training.batch = 8;
  config.run.precision = Precision::bf16;
  const StagePlace place{1, 2, 1};
  const StagePlan last = cut(config).stages[1];
  constexpr std::int64_t rows = 8, value = 2 * rows * 256, labels = 3 * 4 * rows;
  const auto buffers = [&](Wire wire, bool staged) {
    config.strategy.wire = wire;
    return stageMemory(last, config, place, {4, true, staged, staged}).buffers;
  };
  CHECK(buffers(Wire::automatic, false) == labels + value * (1 + 2 + 1));
  CHECK(buffers(Wire::bf16, false) == buffers(Wire::automatic, false));
  CHECK(buffers(Wire::fp16, false) == labels + value * (1 + 2 + 1 + 1)); // received values are converted
  CHECK(buffers(Wire::single, false) == labels + value * (1 + 2 * (2 + 1) + 1));
  CHECK(buffers(Wire::automatic, true) == labels + value * (1 + 2 + 1 + 1)); // and here copied
  config.strategy.wire = Wire::automatic;
  CHECK_FALSE(last.copiesInput());
  const std::int64_t sums = stageMemory(last, config, {1, 2, 2}, {4}).gradients,
                     bucket = config.strategy.bucket_kib * 256;
  CHECK(sums == (2 + 4) * last.storedValues() + 4 * 4 * (bucket / 2 + 1)); // four buckets of floats
  config.strategy.parts = 2;                                               // whose activations are floats
  CHECK(messagePrecision(config) == Precision::single);
}

TEST_CASE("Stages with labels pay for them, and for the recovery where it needs more", "[plan]") {
  RunConfig config = bigConfig(2);
  config.training.batch = 8;
  const Partition partition = cut(config);
  const GridPlan grid = planGrid(config.strategy, partition, 2);
  const std::int64_t rows = 8, classes = 47, labels = classes * (2 * 256 + 1);
  const StageMemory relay = stageMemory(config, partition, grid, 1);
  const StagePlan& first = partition.stages[0];
  CHECK(stageMemory(config, partition, grid, 0).activations ==
        4 * (rows * (first.keptValues() + 2 * first.widest() + 2 + 2 * classes) + labels));
  CHECK(relay.buffers == 4 * rows * (3 + 4 * 256)); // labels, and the queue
  config.strategy.sil.input = StageInput::free;
  CHECK(stageMemory(config, partition, grid, 1).buffers == 4 * (rows * (3 + 256 + classes) + labels));
  CHECK(stageMemory(config, partition, grid, 0).activations == // re-encoded, and back
        4 * (rows * (first.keptValues() + 256 + classes + 2 * first.widest() + 2 + 3 * classes) + labels));
  config.strategy.sil.input = StageInput::relay;
  config.strategy.queue = 1;
  const std::int64_t short_queue = stageMemory(config, partition, grid, 1).buffers;
  config.strategy.sil.recovery_epochs = 1;
  CHECK(stageMemory(config, partition, grid, 1).buffers == 4 * rows * (3 + 256 * (1 + 2 + 1)));
  CHECK(short_queue == 4 * rows * (3 + 256));
}

TEST_CASE("Messages of frozen stages use the memory of a later evaluation", "[plan]") {
  RunConfig config = bigConfig(3);
  config.training.batch = 8;
  config.strategy.sil.input = StageInput::frozen;
  const Partition partition = cut(config);
  const GridPlan grid = planGrid(config.strategy, partition, 3);
  constexpr std::int64_t value = 4 * 8 * 256, labels = 3 * 4 * 8, score = 2 * 4 * 8, data = 3 * 4 * 8 * 784;
  const auto planned = [&](int stage) { return stageMemory(config, partition, grid, stage); };
  // Batches; in an evaluation also a queue of four values per neighbour.
  CHECK(planned(0).buffers == data + labels);
  CHECK(planned(0).evaluation == score + data + labels + 4 * value);
  CHECK(planned(1).buffers == labels + 3 * value);
  CHECK(planned(1).evaluation == score + labels + 8 * value);
  CHECK(planned(2).buffers == labels + 3 * value);
  CHECK(planned(2).evaluation == score + labels + 4 * value);
  // Values that arrive as floats are copied as 16 bits, and evaluated as these: now the training needs more.
  config.run.precision = Precision::bf16;
  config.strategy.wire = Wire::single;
  config.data.prefetch = 0;
  constexpr std::int64_t few_labels = 4 * 8, received = 4 * value + value / 2;
  CHECK(planned(2).evaluation == score + few_labels + 4 * value / 2);
  CHECK(planned(2).buffers + planned(2).evaluation == few_labels + value / 2 + received);
}

TEST_CASE("A cut by memory makes the largest stage as small as it can be", "[plan]") {
  RunConfig config = bigConfig(2);
  config.strategy.cut_rule = CutRule::memory;
  config.data.prefetch = 0; // the cut does not depend on prefetching
  const auto largest = [&](const Partition& partition) {
    std::int64_t most = 0;
    for (const StagePlan& stage : partition.stages)
      most = std::max(most, stageMemory(stage, config, {stage.index, 2}).total());
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

TEST_CASE("Cuts by memory that satisfy a limit do not depend on it", "[plan]") {
  for (const StrategyKind kind : {StrategyKind::pipeline, StrategyKind::sil}) {
    for (const Precision precision : {Precision::single, Precision::bf16}) {
      for (int stages = 2; stages <= 6; ++stages) {
        for (const std::int64_t batch : {8, 512}) {
          INFO(static_cast<int>(kind) << " " << static_cast<int>(precision) << " " << stages << " " << batch);
          RunConfig config = bigConfig(stages);
          config.strategy.kind = kind;
          config.strategy.sil.labels = LabelKind::gaussian; // layers have fewer units than there are classes
          config.strategy.pipeline.microbatches = 4;
          config.run.precision = precision;
          config.training.batch = batch;
          config.data.prefetch = 0;
          config.network.layers.clear();
          for (const std::int64_t units : {40, 96, 8, 8, 200, 64, 16}) {
            config.network.layers.emplace_back();
            config.network.layers.back().dense.units = units;
            config.network.layers.back().activation = Activation::gelu;
          }
          config.network.layers.emplace_back();
          const auto largest = [&](const Partition& partition) {
            std::int64_t most = 0;
            for (const StagePlan& stage : partition.stages)
              most = std::max(most, stageMemory(stage, config, {stage.index, stages}).total());
            return static_cast<double>(most);
          };
          const std::vector<LayerPlan> layers = planNetwork(config.network, {784}, 47);
          const auto count = static_cast<std::int64_t>(layers.size());
          config.strategy.cut_rule = CutRule::list;
          double least = std::numeric_limits<double>::infinity();
          for (std::int64_t mask = 0; mask < 1 << (count - 1); ++mask) {
            config.strategy.cuts.clear();
            for (std::int64_t layer = 1; layer < count; ++layer)
              if ((mask >> (layer - 1) & 1) != 0) config.strategy.cuts.push_back(layer);
            if (static_cast<int>(config.strategy.cuts.size()) + 1 == stages)
              least = std::min(least, largest(cut(config)));
          }
          config.strategy.cuts.clear();
          config.strategy.cut_rule = CutRule::memory;
          const Partition chosen = cut(config);
          REQUIRE(largest(chosen) == least);
          REQUIRE(planPartition(config, layers, 47, 4, least).cuts == chosen.cuts);
          REQUIRE(planPartition(config, layers, 47, 4, 2.0 * least).cuts == chosen.cuts);
          REQUIRE_THROWS_AS(planPartition(config, layers, 47, 4, least - 1.0), UserError);
        }
      }
    }
  }
}

TEST_CASE("A cut by memory counts the share of a replica, and can be kept", "[plan]") {
  RunConfig config = bigConfig(2);
  config.strategy.cut_rule = CutRule::memory;
  config.network.layers.clear();
  for (const std::int64_t units : {256, 48, 512, 512}) {
    config.network.layers.emplace_back();
    config.network.layers.back().dense.units = units;
  }
  config.network.layers.emplace_back();
  config.training.batch = 4096;
  CHECK(cut(config).cuts == std::vector<std::int64_t>{2}); // where the fewest activations cross
  config.strategy.replicas = 512;
  CHECK(cut(config).cuts == std::vector<std::int64_t>{3}); // parameters weigh more
  RunConfig fixed = withFixedCuts(config, {784}, 47, 4);
  fixed.strategy.replicas = 1;
  CHECK(cut(fixed).cuts == std::vector<std::int64_t>{3});
  config.strategy.kind = StrategyKind::joint;
  CHECK(withFixedCuts(config, {784}, 47, 4).strategy.cuts.empty());
}

TEST_CASE("Cuts given as a list are taken, or refused", "[plan]") {
  RunConfig config = bigConfig(3);
  config.strategy.cut_rule = CutRule::list;
  config.strategy.cuts = {1, 5};
  const Partition partition = cut(config);
  CHECK(partition.stages[0].outputs() == 256);
  CHECK(partition.stages[1].parameters() == 4 * (256 * 256 + 256));
  CHECK(partition.stages[2].outputs() == 47);
  const std::string wrong = "strategy/cuts: each of the 3 stages needs at least one of the 6 layers; cuts "
                            "must increase, and count layers from 0";
  for (const std::vector<std::int64_t>& cuts :
       {std::vector<std::int64_t>{0, 3}, {3, 3}, {4, 2}, {2, 6}, {2, 7}}) {
    config.strategy.cuts = cuts;
    CHECK(messageOf([&] { cut(config); }) == wrong);
  }
  CHECK(messageOf([] { cut(bigConfig(7)); }) ==
        "strategy/stages: 7 stages need at least as many layers, but the network has 6");
}

TEST_CASE("An entrance activation stands only where a cut is matched before its activation", "[plan]") {
  RunConfig config = bigConfig(2);
  config.strategy.sil.labels = LabelKind::orthogonal; // signed: before
  const Partition before = cut(config);
  CHECK(before.stages[0].layers.back().spec.activation == Activation::identity);
  const LayerPlan& entrance = before.stages[1].layers.front();
  CHECK(entrance.spec.type == "activation");
  CHECK(entrance.spec.activation == Activation::relu);
  CHECK(entrance.inputs() == 256);
  CHECK(entrance.outputs() == 256);
  CHECK(before.stages[1].layers.back().spec.activation == Activation::identity);

  config.strategy.sil.labels = LabelKind::uniform; // not negative: after
  const Partition after = cut(config);
  CHECK(after.stages[0].layers.back().spec.activation == Activation::relu);
  CHECK(after.stages[1].layers.front().spec.type == "dense");

  config.strategy.sil.match = Match::before;
  CHECK(cut(config).stages[1].layers.front().spec.type == "activation");

  config.network.layers[0].activation = Activation::identity; // nothing to move
  CHECK(cut(config).stages[1].layers.front().spec.type == "dense");
}

TEST_CASE("Every kind of labels has its side of the activation", "[plan]") {
  StrategySection strategy;
  strategy.kind = StrategyKind::sil;
  for (const LabelKind kind : {LabelKind::uniform, LabelKind::binary, LabelKind::sparse, LabelKind::block}) {
    strategy.sil.labels = kind;
    CHECK_FALSE(planOf(strategy).matchedBefore(strategy, 3));
  }
  for (const LabelKind kind :
       {LabelKind::centred, LabelKind::gaussian, LabelKind::sign, LabelKind::orthogonal, LabelKind::etf}) {
    strategy.sil.labels = kind;
    CHECK(planOf(strategy).matchedBefore(strategy, 3));
  }
  strategy.sil.match = Match::after;
  CHECK_FALSE(planOf(strategy).matchedBefore(strategy, 3));
}

TEST_CASE("Orthogonal labels need as many units as classes", "[plan]") {
  RunConfig config = bigConfig(2);
  config.network.layers[0].dense.units = 32;
  for (const LabelKind kind : {LabelKind::orthogonal, LabelKind::etf, LabelKind::block}) {
    config.strategy.sil.labels = kind;
    CHECK(
        messageOf([&] { cut(config); }) ==
        "strategy/labels: orthogonal, etf and block labels need at least as many units at a cut as there are "
        "classes; stage 1 ends with 32 units for 47 classes (choose gaussian, sign or uniform, or another "
        "cut)");
  }
  config.strategy.sil.labels = LabelKind::gaussian;
  CHECK(cut(config).stages.size() == 2);
}

TEST_CASE("Memory of a stage", "[plan]") {
  RunConfig config = bigConfig(2);
  const StagePlan stage = cut(config).stages[0]; // 784-256-256
  const std::int64_t bytes = (784 * 256 + 256 + 256 * 256 + 256) * 4;
  config.strategy.kind = StrategyKind::pipeline;
  const StageMemory memory = stageMemory(stage, config);
  CHECK(memory.parameters == bytes);
  CHECK(memory.gradients == bytes);
  CHECK(memory.optimiser == 2 * bytes);
  CHECK(memory.activations == (256 + 256 + 2 * 256 + 2) * 128 * 4);
  CHECK(memory.buffers == (1 + 2) * (784 + 1) * 128 * 4); // features and labels, two batches ahead
  CHECK(memory.evaluation == memory.buffers + 2 * 128 * 4);
  CHECK(memory.total() == 4 * bytes + memory.activations + memory.buffers + memory.evaluation);
  config.optimiser.kind = OptimiserKind::sgd;
  CHECK(stageMemory(stage, config, {}, {8}).optimiser == 2 * bytes); // one moment in double
  config.optimiser.momentum = 0.0;
  CHECK(stageMemory(stage, config).optimiser == 0);
}

TEST_CASE("Batches and cuts that no machine could handle are refused", "[plan]") {
  RunConfig config = bigConfig(2);
  config.training.batch = std::int64_t{1} << 45;
  CHECK(messageOf([&] { cut(config); }) ==
        "training/batch: a batch would have more than 10^16 values in all layers");
  config.strategy.kind = StrategyKind::pipeline;
  config.strategy.pipeline.microbatches = config.training.batch;
  CHECK(messageOf([&] { cut(config); }) ==
        "training/batch: a batch would have more than 10^16 values in all layers");
  const auto constant = [](std::int64_t, std::int64_t, int) { return 1.0; };
  CHECK(messageOf([&] { balancedCuts(10000, 5000, constant); }) ==
        "strategy/stages: balancing 10000 layers or stages over 5000 parts may take hours");
  CHECK(balancedCuts(1000000, 1, constant).empty());
  CHECK(balancedCuts(50000, 2, constant).size() == 1);
  CHECK(balancedCuts(5000, 5000, constant).size() == 4999);
}

} // namespace partita::test::plan_partition
