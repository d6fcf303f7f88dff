#include "partita/nn/pool_kernels.hpp"

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::nn_pool_gradients {

/// The gradient of each place is gathered from its windows; here each window adds to its places.

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t rows = 2, channels = 21;

WindowPlan windowsOf(std::int64_t kernel, std::int64_t stride, std::int64_t before) {
  WindowPlan w{{1, 9, 8},           {1, 0, 0}, {1, kernel, kernel},
               {1, stride, stride}, {1, 1, 1}, {0, before, before}};
  for (int a = 1; a < 3; ++a) w.out[a] = (w.in[a] + 2 * before - kernel) / stride + 1;
  return w;
}

WindowPlan volume() {
  return {{5, 6, 7}, {2, 3, 3}, {3, 2, 3}, {2, 2, 2}, {1, 1, 1}, {0, 0, 0}};
}

WindowPlan tiled() {
  return {{4, 6, 4}, {2, 3, 2}, {2, 2, 2}, {2, 2, 2}, {1, 1, 1}, {0, 0, 0}};
}

std::vector<WindowPlan> cases() {
  return {windowsOf(2, 2, 0),
          windowsOf(3, 2, 1),
          windowsOf(3, 1, 1),
          windowsOf(2, 3, 0),
          windowsOf(3, 3, 2),
          volume(),
          tiled()};
}

Matrix filled(std::int64_t places, std::uint64_t seed) {
  return matrixOf(rows, places * channels, normals(rows * places * channels, seed));
}

double tolerance() {
  return sizeof(Real) == 4 ? 1e-6 : 1e-14;
}

} // namespace

TEST_CASE("The gradient of max pooling goes to the place that was chosen", "[nn]") {
  for (const WindowPlan& w : cases()) {
    Values input = normals(rows * w.inPlaces() * channels, 1);
    for (double& value : input) value = std::round(value); // some windows have their largest value twice
    const Matrix in = matrixOf(rows, w.inPlaces() * channels, input), grad = filled(w.outPlaces(), 2),
                 out = filled(w.outPlaces(), 3), place = filled(w.outPlaces(), 4),
                 gathered = filled(w.inPlaces(), 5);
    forEachPlace(space, "partita::test::pool", rows, w.out, channels,
                 pooling::Largest<Real>{w, in.data(), out.data(), place.data(), channels});
    forEachPlace(space, "partita::test::gather", rows, w.in, channels,
                 pooling::LargestGradient<Real>{w, place.data(), grad.data(), gathered.data(), channels});
    fence(space, "partita::test");
    const Values chosen = valuesOf(place), from = valuesOf(grad), values = valuesOf(out);
    Values scattered(input.size());
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const auto width = static_cast<std::size_t>(channels),
                 row = i / width / static_cast<std::size_t>(w.outPlaces()),
                 to = (row * static_cast<std::size_t>(w.inPlaces()) + static_cast<std::size_t>(chosen[i])) *
                          width +
                      i % width;
      CHECK(input[to] == values[i]);
      scattered[to] += from[i];
    }
    CHECK(relativeError(valuesOf(gathered), scattered) < tolerance());
  }
}

TEST_CASE("Windows that tile the input return the same gradient one by one", "[nn]") {
  const WindowPlan w = tiled();
  CHECK(pooling::tiles(w));
  CHECK_FALSE(pooling::tiles(volume()));
  const Matrix in = filled(w.inPlaces(), 1), grad = filled(w.outPlaces(), 2), out = filled(w.outPlaces(), 3),
               place = filled(w.outPlaces(), 4), gathered = filled(w.inPlaces(), 5),
               written = filled(w.inPlaces(), 6);
  forEachPlace(space, "partita::test::pool", rows, w.out, channels,
               pooling::Largest<Real>{w, in.data(), out.data(), place.data(), channels});
  forEachPlace(space, "partita::test::gather", rows, w.in, channels,
               pooling::LargestGradient<Real>{w, place.data(), grad.data(), gathered.data(), channels});
  forEachPlace(space, "partita::test::tiles", rows, w.out, channels,
               pooling::LargestGradientOfTile<Real>{w, place.data(), grad.data(), written.data(), channels});
  fence(space, "partita::test");
  CHECK(valuesOf(written) == valuesOf(gathered));
  forEachPlace(space, "partita::test::gather", rows, w.in, channels,
               pooling::MeanGradient<Real>{w, grad.data(), gathered.data(), channels});
  forEachPlace(space, "partita::test::tiles", rows, w.out, channels,
               pooling::MeanGradientOfTile<Real>{w, grad.data(), written.data(), channels});
  fence(space, "partita::test");
  CHECK(valuesOf(written) == valuesOf(gathered));
}

TEST_CASE("The gradient of average pooling is the transposed map", "[nn]") {
  for (const WindowPlan& w : cases()) {
    const Matrix in = filled(w.inPlaces(), 1), grad = filled(w.outPlaces(), 2),
                 out = filled(w.outPlaces(), 3), gathered = filled(w.inPlaces(), 4);
    forEachPlace(space, "partita::test::pool", rows, w.out, channels,
                 pooling::Mean<Real>{w, in.data(), out.data(), channels});
    forEachPlace(space, "partita::test::gather", rows, w.in, channels,
                 pooling::MeanGradient<Real>{w, grad.data(), gathered.data(), channels});
    fence(space, "partita::test");
    const double forward = dot(valuesOf(out), valuesOf(grad)), back = dot(valuesOf(in), valuesOf(gathered));
    CHECK(std::abs(forward - back) < 30 * tolerance() * std::sqrt(dot(valuesOf(in), valuesOf(in))));
  }
}

} // namespace partita::test::nn_pool_gradients
