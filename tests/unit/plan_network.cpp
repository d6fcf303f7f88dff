#include "partita/plan/network_plan.hpp"

#include "data_files.hpp"
#include "support/catch.hpp"

using namespace partita;
using test::messageOf;

namespace {

LayerSpec dense(std::int64_t units, Activation activation = Activation::identity, std::int64_t repeat = 1) {
  LayerSpec spec;
  spec.units = units;
  spec.activation = activation;
  spec.repeat = repeat;
  return spec;
}

NetworkSection network(const std::vector<LayerSpec>& layers) {
  NetworkSection section;
  section.layers = layers;
  return section;
}

} // namespace

TEST_CASE("Repeats are unrolled and the last layer is as wide as there are classes", "[plan]") {
  NetworkSection section = network({dense(256, Activation::relu, 5), dense(0)});
  section.initialisation = Initialisation::lecun;
  const auto layers = planNetwork(section, 784, 47);
  REQUIRE(layers.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(layers[i].index == static_cast<std::int64_t>(i));
    CHECK(layers[i].inputs == (i == 0 ? 784 : 256));
    CHECK(layers[i].outputs == (i == 5 ? 47 : 256));
    CHECK(layers[i].activation == (i == 5 ? Activation::identity : Activation::relu));
    CHECK(layers[i].initialisation == Initialisation::lecun);
  }
  CHECK(layers[3].name() == "layer3.dense");
  CHECK(countParameters(layers) == 476207);
  CHECK(layers[0].parameters() == 784 * 256 + 256);
}

TEST_CASE("A layer's cost follows from its shape", "[plan]") {
  LayerSpec spec = dense(20, Activation::gelu);
  spec.bias = false;
  LayerPlan layer = planNetwork(network({spec, dense(0)}), 30, 4).front();
  CHECK(layer.parameters() == 600);
  CHECK(layer.forwardFlops() == 1200.0);
  CHECK(layer.weightFlops() == 1200.0);
  CHECK(layer.inputFlops() == 1200.0);
  CHECK(layer.keptValues() == 40); // gelu keeps its argument too
  layer.activation = Activation::tanh;
  CHECK(layer.keptValues() == 20);
  layer.type = LayerType::activation;
  CHECK(layer.name() == "layer0.activation");
  CHECK(layer.parameters() == 0);
  CHECK(layer.forwardFlops() == 0.0);
}

TEST_CASE("Networks that do not fit are refused", "[plan]") {
  CHECK(messageOf([] { planNetwork(network({}), 4, 3); }) == "network/layers: there is no layer");
  CHECK(messageOf([] {
          planNetwork(network({dense(0), dense(0)}), 4, 3);
        }) ==
        "network/layers: entry 1 has no units; only the last layer may leave them to the number of classes");
  CHECK(messageOf([] {
          planNetwork(network({dense(5), dense(0, Activation::identity, 2)}), 4, 3);
        }) ==
        "network/layers: entry 2 has no units; only the last layer may leave them to the number of classes");
  CHECK(messageOf([] {
          planNetwork(network({dense(5), dense(7)}), 4, 3);
        }) == "network/layers: the last layer has 7 units, but the data have 3 classes; leave its units out");
  CHECK(messageOf([] {
          planNetwork(network({dense(5), dense(0, Activation::relu)}), 4, 3);
        }) == "network/layers: the last layer must have no activation, the loss brings its own");
  CHECK(planNetwork(network({dense(3)}), 4, 3).size() == 1); // the right number may be given
}
