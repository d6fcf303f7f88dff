#include "partita/nn/layer.hpp"
#include "partita/plan/network_plan.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::nn_elementwise {

namespace {

constexpr DefaultSpace space;

Values activated(Activation activation, const Values& in) {
  const auto width = static_cast<std::int64_t>(in.size());
  LayerSpec spec, last;
  spec.type = "activation";
  spec.activation = activation;
  NetworkSection network;
  network.layers = {spec, last};
  const std::unique_ptr<Layer> layer = makeLayer(planNetwork(network, {width}, 2).front());
  const Matrix x = matrixOf(1, width, in), y = makeMatrix("partita::test::y", 1, width),
               saved = makeMatrix("partita::test::saved", 1, layer->savedValues());
  layer->forward(space, Pass{}, x, y, saved);
  return valuesOf(y);
}

} // namespace

/// A loss could stay finite if a unit gave 0 in place of NaN.
TEST_CASE("Activations let NaN through", "[nn]") {
  for (const Activation activation :
       {Activation::identity, Activation::relu, Activation::leaky_relu, Activation::gelu, Activation::tanh,
        Activation::sigmoid, Activation::silu}) {
    Values in = normals(41, 1);
    in[5] = in[40] = std::numeric_limits<double>::quiet_NaN();
    const Values out = activated(activation, in);
    INFO(static_cast<int>(activation));
    for (std::size_t i = 0; i < out.size(); ++i) CHECK(std::isnan(out[i]) == (i == 5 || i == 40));
  }
}

TEST_CASE("ReLU turns negative values and -0 into 0", "[nn]") {
  const Values out = activated(Activation::relu, {-1.5, -0.0, 0.0, 2.5});
  CHECK(out == Values{0.0, 0.0, 0.0, 2.5});
  for (const double value : out) CHECK_FALSE(std::signbit(value));
}

} // namespace partita::test::nn_elementwise
