#include "partita/plan/network_plan.hpp"

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::plan_network {

namespace {

LayerSpec dense(std::int64_t units, Activation activation = Activation::identity, std::int64_t repeat = 1) {
  LayerSpec spec;
  spec.dense.units = units;
  spec.activation = activation;
  spec.repeat = repeat;
  return spec;
}

NetworkSection network(const std::vector<LayerSpec>& layers) {
  NetworkSection section;
  section.layers = layers;
  return section;
}

/// A group of layers.
LayerSpec wrapped(const std::string& type, const std::vector<LayerSpec>& layers) {
  LayerSpec spec;
  spec.type = type;
  spec.layers = layers;
  return spec;
}

} // namespace

TEST_CASE("Repeats are unrolled and the last layer is as wide as there are classes", "[plan]") {
  NetworkSection section = network({dense(256, Activation::relu, 5), dense(0)});
  section.initialisation = Initialisation::lecun;
  const auto layers = planNetwork(section, {784}, 47);
  REQUIRE(layers.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(layers[i].index == static_cast<std::int64_t>(i));
    CHECK(layers[i].inputs() == (i == 0 ? 784 : 256));
    CHECK(layers[i].outputs() == (i == 5 ? 47 : 256));
    CHECK(layers[i].spec.activation == (i == 5 ? Activation::identity : Activation::relu));
    CHECK(layers[i].initialisation == Initialisation::lecun);
  }
  CHECK(layers[3].name() == "layer3.dense");
  CHECK(countParameters(layers) == 476207);
  CHECK(layers[0].parameters() == 784 * 256 + 256);
}

TEST_CASE("A layer's cost follows from its shape", "[plan]") {
  LayerSpec spec = dense(20, Activation::gelu);
  spec.dense.bias = false;
  LayerPlan layer = planNetwork(network({spec, dense(0)}), {30}, 4).front();
  CHECK(layer.parameters() == 600);
  CHECK(layer.forwardFlops() == 1200.0);
  CHECK(layer.weightFlops() == 1200.0);
  CHECK(layer.inputFlops() == 1200.0);
  CHECK(layer.keptValues() == 40); // gelu keeps its argument too
  layer.spec.activation = Activation::tanh;
  CHECK(layer.keptValues() == 20);
  layer.spec.type = "activation";
  CHECK(layer.name() == "layer0.activation");
  CHECK(layer.parameters() == 0);
  CHECK(layer.forwardFlops() == 0.0);
}

TEST_CASE("Networks that do not fit are refused", "[plan]") {
  CHECK(messageOf([] { planNetwork(network({}), {4}, 3); }) == "network/layers: the network has no layers");
  constexpr std::int64_t wide = 1 << 24; // 2^24 x 2^44 weights, and 2^44 outputs
  LayerSpec wide_image;
  wide_image.type = "conv2d";
  wide_image.convolution.channels = wide;
  wide_image.convolution.kernel = {{1}};
  CHECK(messageOf([&] {
          planNetwork(network({wide_image, dense(wide), dense(0)}), {1, 1024, 1024}, 3);
        }) == "network/layers: the network would have more than 10^15 parameters");
  LayerSpec pooled;
  pooled.type = "global-average-pool";
  CHECK(messageOf([&] {
          planNetwork(network({wide_image, pooled, dense(0)}), {1, 1024, 1024}, 3);
        }) == "network/layers: the layers would have more than 10^11 outputs per sample");
  LayerSpec wide_window;
  wide_window.type = "conv2d";
  wide_window.convolution.channels = 1;
  wide_window.convolution.kernel = {{wide}};
  wide_window.convolution.padding.same = true;
  CHECK(messageOf([&] {
          planNetwork(network({wide_window, dense(0)}), {1, 1024, 1024}, 3);
        }) == "network/layers[0]: its windows would see more than 10^15 values per sample");
  CHECK(messageOf([] {
          planNetwork(network({dense(0), dense(0)}), {4}, 3);
        }) == "network/layers[0] has no units; only the last layer takes them from the number of classes");
  CHECK(messageOf([] {
          planNetwork(network({dense(5), dense(0, Activation::identity, 2)}), {4}, 3);
        }) == "network/layers[1] has no units; only the last layer takes them from the number of classes");
  CHECK(messageOf([] {
          planNetwork(network({dense(5), dense(7)}), {4}, 3);
        }) == "network/layers: the last layer has 7 units, but the data have 3 classes; remove its units");
  CHECK(messageOf([&] {
          planNetwork(network({wrapped("block", {dense(5), dense(7)})}), {4}, 3);
        }) == "network/layers: the last layer has 7 units, but the data have 3 classes; remove its units");
  CHECK(messageOf([] {
          planNetwork(network({dense(5), dense(0, Activation::relu)}), {4}, 3);
        }) == "network/layers: the last layer must have no activation, because the loss includes one");
  CHECK(planNetwork(network({dense(3)}), {4}, 3).size() == 1); // the correct number may be given
  LayerSpec convolution;
  convolution.type = "conv2d";
  convolution.convolution.channels = 3;
  convolution.convolution.kernel = {{2, 2}};
  CHECK(planNetwork(network({convolution}), {1, 2, 2}, 3).size() == 1); // one place
  CHECK(messageOf([&] {
          planNetwork(network({convolution}), {1, 3, 2}, 6);
        }) == "network/layers: the output of the last layer, 3x2x1, is an image; add a dense layer");
}

TEST_CASE("Whoever ends a network without a layer of units is told to add one", "[plan]") {
  const auto complaint = [](const LayerSpec& last) {
    return messageOf([&] { planNetwork(network({dense(7), last}), {4}, 3); });
  };
  LayerSpec dropout;
  dropout.type = "dropout";
  const std::string advice = " gives 7 values, but the data have 3 classes; add { type = \"dense\" }";
  CHECK(complaint(dropout) == "network/layers: the last layer, of type 'dropout'," + advice);
  CHECK(complaint(wrapped("block", {dense(7), dropout})) ==
        "network/layers: the last layer, of type 'block'," + advice);
  CHECK(complaint(wrapped("residual", {dense(7)})) == // its sum is as wide as its input
        "network/layers: the last layer, of type 'residual'," + advice);
  CHECK(complaint(dense(7, Activation::identity, 2)) == // all copies are alike
        "network/layers: the last layer, of type 'dense'," + advice);
}

TEST_CASE("Groups: shapes, costs, names and numbers of the layers inside", "[plan]") {
  LayerSpec residual, block;
  residual.type = "residual";
  residual.layers = {dense(8, Activation::gelu), dense(6)};
  block.type = "block";
  block.layers = {residual, dense(6, Activation::relu)};
  block.repeat = 2;
  const auto layers = planNetwork(network({block, dense(0)}), {6}, 3);
  REQUIRE(layers.size() == 3);
  const LayerPlan& second = layers[1];
  CHECK(second.name() == "layer1.block");
  CHECK(second.parameters() == (6 * 8 + 8) + (8 * 6 + 6) + (6 * 6 + 6));
  CHECK(second.forwardFlops() == 2.0 * (48 + 48 + 36));
  std::vector<std::string> names;
  std::vector<std::int64_t> numbers;
  for (const LayerPlan* leaf : leavesOf(layers)) {
    names.push_back(leaf->name());
    numbers.push_back(leaf->number);
  }
  CHECK(names == std::vector<std::string>{"layer0.0.0.dense", "layer0.0.1.dense", "layer0.1.dense",
                                          "layer1.0.0.dense", "layer1.0.1.dense", "layer1.1.dense",
                                          "layer2.dense"});
  CHECK(numbers == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6});
  // Inside: both outputs of the residual and gelu's argument; its own output; the block's output is not
  // counted again.
  CHECK(second.savedValues() == (8 + 8 + 8) + 8); // 6 take the room of 8
  block.recompute = true;
  CHECK(planNetwork(network({block, dense(0)}), {6}, 3).front().savedValues() == 0);
}

TEST_CASE("A dense layer takes a sequence position by position", "[plan]") {
  const auto layers = planNetwork(network({dense(5, Activation::relu), dense(0)}), {7, 4}, 3);
  CHECK(layers[0].parameters() == 4 * 5 + 5);
  CHECK(layers[0].out == Shape{7, 5});
  CHECK(layers[1].out == Shape{7, 3});
  CHECK(layers[0].forwardFlops() == 2.0 * 7 * 4 * 5);
}

TEST_CASE("A residual whose branches differ is refused", "[plan]") {
  LayerSpec residual;
  residual.type = "residual";
  residual.layers = {dense(5)};
  CHECK(messageOf([&] {
          planNetwork(network({residual, dense(0)}), {4}, 3);
        }) == "network/layers[0]: the output of the layers, 5, cannot be added to the input, 4");
  residual.shortcut = {dense(6)};
  CHECK(messageOf([&] {
          planNetwork(network({residual, dense(0)}), {4}, 3);
        }) == "network/layers[0]: the output of the layers, 5, cannot be added to the output of the "
              "shortcut, 6");
}

} // namespace partita::test::plan_network
