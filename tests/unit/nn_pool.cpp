#include "partita/nn/layer.hpp"
#include "partita/plan/network_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/images.hpp"

namespace partita::test::nn_pool {

namespace {

constexpr DefaultSpace space;

LayerPlan planOf(const Shape& in, std::int64_t kernel, std::int64_t stride,
                 const std::string& type = "max-pool") {
  LayerSpec spec, last;
  spec.type = type;
  spec.pool.kernel = {{kernel}};
  spec.pool.stride = {{stride}};
  NetworkSection network;
  network.layers = {spec, last};
  return planNetwork(network, in, 2).front();
}

struct Expected {
  Values out, grad_in;
};

/// By hand, without padding: the first of equal values counts.
Expected byHand(const LayerPlan& plan, std::int64_t kernel, std::int64_t stride, std::int64_t rows,
                const Values& in, const Values& grad_out) {
  const std::int64_t width = plan.in[2], places = plan.in[1] * width, windows = plan.out[1] * plan.out[2];
  Expected expected{{}, Values(in.size(), 0.0)};
  for (std::int64_t item = 0; item < rows * plan.in[0]; ++item) {
    for (std::int64_t window = 0; window < windows; ++window) {
      const std::int64_t first =
          item * places + window / plan.out[2] * stride * width + window % plan.out[2] * stride;
      std::int64_t best = first;
      for (std::int64_t tap = 0; tap < kernel * kernel; ++tap) {
        const std::int64_t place = first + tap / kernel * width + tap % kernel;
        if (in[static_cast<std::size_t>(place)] > in[static_cast<std::size_t>(best)]) best = place;
      }
      expected.out.push_back(in[static_cast<std::size_t>(best)]);
      expected.grad_in[static_cast<std::size_t>(best)] +=
          grad_out[static_cast<std::size_t>(item * windows + window)];
    }
  }
  return expected;
}

/// Whole numbers from 0 to 3, so that many are equal.
Values fewNumbers(std::int64_t count) {
  Values values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * i % 7 % 4);
  return values;
}

} // namespace

TEST_CASE("Max pooling finds the first largest value of a window, and returns the gradient to its place",
          "[nn]") {
  struct Case {
    Shape in;
    std::int64_t kernel, stride;
  };
  // The second and third leave places out; channels are computed 16, 4 or 1 at a time, and on devices also 8.
  const std::vector<Case> cases{{{22, 24, 24}, 2, 2}, {{2, 7, 9}, 2, 2}, {{2, 6, 7}, 2, 2},
                                {{1, 2, 2}, 2, 2},    {{2, 7, 9}, 2, 1}, {{2, 9, 9}, 3, 2},
                                {{16, 8, 6}, 2, 2},   {{24, 9, 7}, 3, 2}};
  constexpr std::int64_t rows = 2;
  for (const Case& c : cases) {
    const LayerPlan plan = planOf(c.in, c.kernel, c.stride);
    const std::int64_t inputs = plan.inputs(), outputs = plan.outputs();
    INFO(inputs << " values, kernel " << c.kernel << ", stride " << c.stride);
    const Values in = fewNumbers(rows * inputs), grad_out = normals(rows * outputs, 2);
    const std::unique_ptr<Layer> layer = makeLayer(plan);
    const Matrix x = matrixOf(rows, inputs, asInMemory(in, plan.in)),
                 y = makeMatrix("partita::test::y", rows, outputs),
                 saved = makeMatrix("partita::test::saved", rows, layer->savedValues()),
                 grad_in = matrixOf(rows, inputs, Values(in.size(), 9.0));
    layer->forward(space, Pass{}, x, y, saved);
    layer->backward(space, Pass{}, x, y, saved, matrixOf(rows, outputs, asInMemory(grad_out, plan.out)),
                    grad_in);
    const Expected expected = byHand(plan, c.kernel, c.stride, rows, in, grad_out);
    CHECK(asInShape(valuesOf(y), plan.out) == expected.out);
    CHECK(relativeError(asInShape(valuesOf(grad_in), plan.in), expected.grad_in) < 1e-6);
  }
}

TEST_CASE("NaN is the largest value of a window", "[nn]") {
  constexpr std::int64_t rows = 1;
  for (const std::int64_t channels : {1, 8, 19}) {
    const LayerPlan plan = planOf({channels, 4, 4}, 2, 2);
    Values in = fewNumbers(rows * plan.inputs());
    in[5] = std::numeric_limits<double>::quiet_NaN(); // in the first window of the first channel
    const std::unique_ptr<Layer> layer = makeLayer(plan);
    const Matrix x = matrixOf(rows, plan.inputs(), asInMemory(in, plan.in)),
                 y = makeMatrix("partita::test::y", rows, plan.outputs()),
                 saved = makeMatrix("partita::test::saved", rows, layer->savedValues());
    layer->forward(space, Pass{}, x, y, saved);
    const Values out = asInShape(valuesOf(y), plan.out);
    for (std::size_t i = 0; i < out.size(); ++i) CHECK(std::isnan(out[i]) == (i == 0));
  }
}

/// A part computes the windows that see only its own places while others travel.
TEST_CASE("Pooling in two calls, first the interior and then the rest, gives the values of one call",
          "[nn]") {
  constexpr std::int64_t rows = 3, untouched = 9;
  const Block interior{{IndexRange{0, 1}, {1, 4}, {0, 3}}};
  for (const std::string type : {"max-pool", "average-pool"}) {
    INFO(type);
    LayerPlan plan = planOf({5, 9, 11}, 3, 2, type);
    LayerPart part;
    part.interior = interior;
    plan.part = std::make_shared<const LayerPart>(part);
    const std::unique_ptr<Layer> layer = makeLayer(plan);
    const std::int64_t outputs = plan.outputs(), saves = layer->savedValues();
    const Matrix x = matrixOf(rows, plan.inputs(), normals(rows * plan.inputs(), 1)),
                 whole = makeMatrix("partita::test::whole", rows, outputs),
                 places = makeMatrix("partita::test::places", rows, saves),
                 y = matrixOf(rows, outputs, Values(static_cast<std::size_t>(rows * outputs), untouched)),
                 saved = makeMatrix("partita::test::saved", rows, saves);
    layer->forward(space, Pass{}, x, whole, places);
    const Values expected = asInShape(valuesOf(whole), plan.out);
    Pass pass;
    pass.outputs = OutputPlaces::interior;
    layer->forward(space, pass, x, y, saved);
    const Values first = asInShape(valuesOf(y), plan.out);
    std::int64_t computed = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const std::int64_t place = static_cast<std::int64_t>(i) % (plan.out[1] * plan.out[2]),
                         row = place / plan.out[2], column = place % plan.out[2];
      const bool inside = row >= 1 && row < 4 && column < 3;
      computed += inside ? 1 : 0;
      CHECK(first[i] == (inside ? expected[i] : static_cast<double>(untouched)));
    }
    CHECK(computed == rows * 5 * interior.places());
    pass.outputs = OutputPlaces::rest;
    layer->forward(space, pass, x, y, saved);
    CHECK(asInShape(valuesOf(y), plan.out) == expected);
    CHECK(valuesOf(saved) == valuesOf(places));
  }
}

} // namespace partita::test::nn_pool
