#include "partita/config/deck.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/partition.hpp"
#include "partita/plan/stage_memory.hpp"
#include "partita/plan/window_plan.hpp"

#include "support/catch.hpp"
#include "support/source_directory.hpp"

namespace partita::test::plan_images {

namespace {

const std::string source_dir = sourceDirectory();

std::vector<LayerPlan> planOf(const std::string& layers, const Shape& shape) {
  const RunConfig config = parseDeck("[network]\nlayers = [" + layers + ", { type = \"dense\" }]\n", "deck");
  return planNetwork(config.network, shape, 10);
}

Shape shapeAfter(const std::string& layer, const Shape& shape) {
  return planOf(layer, shape).front().out;
}

std::string messageOf(const std::string& layer, const Shape& shape) {
  try {
    planOf(layer, shape);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::vector<LayerPlan> planDeck(const std::string& name) {
  const RunConfig config = loadDeck(source_dir + "/input-decks/" + name + ".toml", {});
  return planNetwork(config.network, {3, 224, 224}, 1000);
}

double forwardFlops(const std::vector<LayerPlan>& layers) {
  double sum = 0.0;
  for (const LayerPlan& layer : layers) sum += layer.forwardFlops();
  return sum;
}

} // namespace

TEST_CASE("Shapes of convolutions and pools", "[plan]") {
  const Shape image{3, 32, 28}, volume{2, 9, 16, 10};
  const auto conv = [](const std::string& keys) {
    return "{ type = \"conv2d\", channels = 8, " + keys + " }";
  };
  CHECK(shapeAfter(conv("kernel = 5"), image) == Shape{8, 28, 24});
  CHECK(shapeAfter(conv("kernel = 3, padding = 1, stride = 2"), image) == Shape{8, 16, 14});
  CHECK(shapeAfter(conv("kernel = [3, 1], padding = [2, 0], dilation = [2, 1]"), image) == Shape{8, 32, 28});
  CHECK(shapeAfter(conv("kernel = 4, padding = \"same\", stride = 3"), image) == Shape{8, 11, 10});
  CHECK(shapeAfter("{ type = \"conv3d\", channels = 4, kernel = [3, 5, 1] }", volume) == Shape{4, 7, 12, 10});
  CHECK(shapeAfter("{ type = \"max-pool\", kernel = 2 }", {3, 7, 6}) == Shape{3, 3, 3});
  CHECK(shapeAfter("{ type = \"average-pool\", kernel = 3, stride = 1, padding = 1 }", image) == image);
  CHECK(shapeAfter("{ type = \"max-pool\", kernel = [1, 2, 2] }", volume) == Shape{2, 9, 8, 5});
  CHECK(shapeAfter("{ type = \"global-average-pool\" }", volume) == Shape{2});
  CHECK(shapeAfter("{ type = \"flatten\" }", image) == Shape{3 * 32 * 28});
  CHECK(shapeAfter("{ type = \"batch-norm\" }", image) == image);
  CHECK(shapeAfter("{ type = \"group-norm\", groups = 3 }", image) == image);
  CHECK(shapeAfter("{ type = \"group-norm\", groups = 3 }", {6}) == Shape{6});
}

TEST_CASE("Windows are evenly padded if the padding before an image may also follow it", "[plan]") {
  const auto evenly = [](const std::string& keys) {
    return ConvolutionPlan(planOf("{ type = \"conv2d\", channels = 8, " + keys + " }", {3, 32, 28}).front())
        .windows.evenlyPadded();
  };
  CHECK(evenly("kernel = 5"));
  CHECK(evenly("kernel = 3, padding = 1, stride = 2"));
  CHECK(evenly("kernel = 3, padding = \"same\""));
  CHECK_FALSE(evenly("kernel = 4, padding = \"same\""));
  CHECK_FALSE(evenly("kernel = 3, padding = \"same\", stride = 2"));
}

TEST_CASE("Costs of a convolution", "[plan]") {
  const LayerPlan plan =
      planOf("{ type = \"conv2d\", channels = 8, kernel = [3, 2], groups = 2, activation = \"gelu\" }",
             {4, 7, 5})
          .front();
  CHECK(plan.out == Shape{8, 5, 4});
  CHECK(plan.parameters() == 8 * 2 * 6 + 8);
  CHECK(plan.forwardFlops() == 2.0 * (8 * 5 * 4) * (2 * 6));
  CHECK(plan.savedValues() == 8 * 5 * 4);
  CHECK(plan.parameterShapes()[0].extents == std::vector<std::int64_t>{8, 2, 3, 2});
}

TEST_CASE("Scratch of a convolution is bounded whatever the batch", "[plan]") {
  const LayerPlan plan =
      planOf("{ type = \"conv2d\", channels = 64, kernel = 3, padding = 1 }", {64, 14, 14}).front();
  const ConvolutionPlan convolution(plan);
  CHECK(convolution.rowsAtOnce(1) == 1);
  CHECK(convolution.rowsAtOnce(1000) < (plans_for_device ? 1000 : 10));
  CHECK(convolution.columnValues(1000) == convolution.columnValues(100));
  const LayerPlan pointwise = planOf("{ type = \"conv2d\", channels = 8, kernel = 1 }", {4, 5, 6}).front();
  if (!plans_for_device) CHECK(pointwise.workValues(10) == 8 * 10); // sums for the bias alone
}

TEST_CASE("A batch with fewer rows needs no more scratch", "[plan]") {
  const auto check = [](const LayerPlan& plan) {
    INFO(plan.name() << " " << plan.inputs() << " -> " << plan.outputs());
    std::int64_t most = 0;
    for (std::int64_t rows = 1; rows < 140; ++rows) {
      const std::int64_t values = plan.workValues(rows);
      CHECK(most <= values);
      most = std::max(most, values);
    }
  };
  for (const std::int64_t channels : {3, 16, 32, 64, 128})
    for (const std::int64_t extent : {7, 14, 16, 28, 32, 57}) {
      const std::string type = "{ type = \"conv2d\", kernel = 3, channels = ";
      for (const char* rest : {"32 }", "64, padding = \"same\" }", "128, stride = 2 }"})
        check(planOf(type + rest, {channels, extent, extent}).front());
    }
  for (const char* deck : {"lenet-mnist", "resnet-50", "vgg-16", "resnet20-cifar10", "resnet-emnist"})
    for (const LayerPlan& plan : planDeck(deck)) check(plan);
}

TEST_CASE("Layers of images that do not fit are refused", "[plan]") {
  using Catch::Matchers::ContainsSubstring;
  const Shape image{3, 8, 8};
  const std::string entry = "network/layers[0]: ";
  CHECK(messageOf("{ type = \"conv2d\", channels = 4 }", {64}) ==
        entry + "conv2d needs channels x rows x columns, but its input is 64");
  CHECK(messageOf("{ type = \"conv3d\", channels = 4 }", image) ==
        entry + "conv3d needs channels x depth x rows x columns, but its input is 3x8x8");
  CHECK_THAT(messageOf("{ type = \"conv2d\", channels = 4, kernel = [3, 3, 3] }", image),
             ContainsSubstring("kernel has 3 values, but the input 3x8x8 has 2 axes"));
  CHECK_THAT(messageOf("{ type = \"conv2d\", channels = 4, kernel = 5, dilation = 2 }", image),
             ContainsSubstring("a window of 9 positions does not fit"));
  CHECK_THAT(messageOf("{ type = \"conv2d\", channels = 4, groups = 2 }", image),
             ContainsSubstring("cannot be divided into 2 groups"));
  CHECK_THAT(messageOf("{ type = \"max-pool\", kernel = 2, padding = 2 }", image),
             ContainsSubstring("leaves windows of 2 positions empty"));
  CHECK_THAT(messageOf("{ type = \"max-pool\" }", {64}), ContainsSubstring("needs an image or a volume"));
  CHECK_THAT(messageOf("{ type = \"global-average-pool\" }", {64}), ContainsSubstring("needs an image"));
}

TEST_CASE("Groups that do not divide the channels are refused, with the nearest that do", "[plan]") {
  const auto groups = [](int count) {
    return "{ type = \"group-norm\", groups = " + std::to_string(count) + " }";
  };
  const std::string entry = "network/layers[0]: ";
  CHECK(messageOf(groups(4), {10, 8, 8}) ==
        entry + "10 channels cannot be divided into 4 groups; use 2 or 5");
  CHECK(messageOf(groups(6), {10}) == entry + "10 channels cannot be divided into 6 groups; use 5 or 10");
  CHECK(messageOf(groups(32), {3, 8, 8}) == entry + "3 channels cannot be divided into 32 groups; use 3");
  CHECK(messageOf(groups(5), {7, 2, 2, 2}) ==
        entry + "7 channels cannot be divided into 5 groups; use 1 or 7");
  CHECK(messageOf(groups(10), {10}) ==
        entry + "group-norm would have a single value in each of 10 groups; use fewer");
  CHECK(messageOf(groups(10), {10, 1, 2}).empty());
  CHECK(messageOf(groups(2), {4, 6}) ==
        entry + "group-norm takes vectors, images and volumes, but its input 4x6 is a sequence");
}

TEST_CASE("Published networks have the published numbers of parameters", "[plan]") {
  const std::vector<LayerPlan> vgg = planDeck("vgg-16"), resnet = planDeck("resnet-50");
  CHECK(countParameters(vgg) == 138357544);
  CHECK(countParameters(resnet) == 25557032);
  CHECK(forwardFlops(vgg) ==
        Approx(2 * 15.47e9).epsilon(1e-3)); // published counts take a multiply-add as one
  CHECK(forwardFlops(resnet) == Approx(2 * 4.089e9).epsilon(1e-3));
}

TEST_CASE("An activation moves over pools and out of blocks to the stage after a cut", "[plan]") {
  RunConfig config = parseDeck(R"([network]
layers = [
  { type = "conv2d", channels = 4, kernel = 3, activation = "relu" },
  { type = "block", layers = [{ type = "conv2d", channels = 4, kernel = 3, activation = "tanh" },
                              { type = "max-pool", kernel = 2 }] },
  { type = "conv2d", channels = 4, kernel = 3, activation = "gelu" },
  { type = "max-pool", kernel = 2 },
  { type = "dense" },
]
[strategy]
kind = "sil"
labels = "orthogonal"
stages = 2
cuts = [2]
)",
                               "deck");
  const std::vector<LayerPlan> layers = planNetwork(config.network, {1, 16, 16}, 4);
  const auto cutAt = [&](std::int64_t cut) {
    config.strategy.cuts = {cut};
    return planPartition(config, layers, 4);
  };
  const Partition in_block = cutAt(2);
  CHECK(in_block.stages[0].layers.back().body.front().spec.activation == Activation::identity);
  REQUIRE(in_block.stages[1].entrance);
  CHECK(in_block.stages[1].layers.front().spec.activation == Activation::tanh);
  CHECK(in_block.stages[1].layers.front().in == Shape{4, 6, 6});
  const Partition gelu = cutAt(4); // the maximum of gelus is not the gelu of the maximum
  CHECK(gelu.stages[0].layers[2].spec.activation == Activation::gelu);
  CHECK_FALSE(gelu.stages[1].entrance);
  const Partition linear = cutAt(1); // one layer with weights keeps its own
  CHECK(linear.stages[0].layers[0].spec.activation == Activation::relu);
  CHECK_FALSE(linear.stages[1].entrance);
}

TEST_CASE("A stage without parameters is refused, unless it is the last of a network that trains as a whole",
          "[plan]") {
  const auto refusal = [](const std::string& strategy) -> std::string {
    try {
      const RunConfig config = parseDeck(R"([network]
layers = [
  { type = "conv2d", channels = 4, kernel = 3, activation = "relu" },
  { type = "max-pool", kernel = 2 },
  { type = "conv2d", channels = 10, kernel = 3 },
  { type = "global-average-pool" },
]
[strategy]
)" + strategy,
                                         "deck");
      planPartition(config, planNetwork(config.network, {1, 16, 16}, 10), 10);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const std::string last = "kind = \"sil\"\nstages = 2\ncuts = [3]\n";
  CHECK(refusal(last) == "strategy/cuts: stage 2 has no parameters to learn");
  CHECK(refusal(last + "recovery_epochs = 1").empty());
  CHECK(refusal(last + "joint_every = 4").empty());
  CHECK(refusal("kind = \"sil\"\nstages = 3\ncuts = [1, 2]\nrecovery_epochs = 1") ==
        "strategy/cuts: stage 2 has no parameters to learn");
  CHECK(refusal("kind = \"pipeline\"\nstages = 2\ncuts = [3]").empty());
}

TEST_CASE("Running statistics are kept twice if steps may be skipped", "[plan]") {
  RunConfig config = parseDeck(R"([network]
layers = [{ type = "batch-norm" }, { type = "dense" }]
)",
                               "deck");
  const std::vector<LayerPlan> layers = planNetwork(config.network, {6}, 4);
  const auto bytes = [&] {
    const StagePlan stage = planPartition(config, layers, 4).stages.front();
    const StageMemory memory = stageMemory(stage, config, {}, {4});
    return memory.parameters - memory.gradients; // of the same length
  };
  CHECK(bytes() == 2 * 6 * 4);
  config.run.precision = Precision::bf16;
  CHECK(bytes() == 2 * 2 * 6 * 4);
  config.run.precision = Precision::single;
  config.strategy.wire = Wire::fp16;
  CHECK(bytes() == 2 * 2 * 6 * 4);
}

} // namespace partita::test::plan_images
