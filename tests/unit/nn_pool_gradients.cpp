#include "partita/nn/pool_kernels.hpp"

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::nn_pool_gradients {

/// Hosts add the gradient of each window to its places, devices gather it for each place; a host can do both.

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t planes = 6;

WindowPlan windowsOf(std::int64_t kernel, std::int64_t stride, std::int64_t before) {
  WindowPlan w{{1, 9, 8},           {1, 0, 0}, {1, kernel, kernel},
               {1, stride, stride}, {1, 1, 1}, {0, before, before}};
  for (int a = 1; a < 3; ++a) w.out[a] = (w.in[a] + 2 * before - kernel) / stride + 1;
  return w;
}

WindowPlan volume() {
  return {{5, 6, 7}, {2, 3, 3}, {3, 2, 3}, {2, 2, 2}, {1, 1, 1}, {0, 0, 0}};
}

std::vector<WindowPlan> cases() {
  return {windowsOf(2, 2, 0), windowsOf(3, 2, 1), windowsOf(3, 1, 1),
          windowsOf(2, 3, 0), windowsOf(3, 3, 2), volume()};
}

Matrix gradientBuffer(const WindowPlan& w) {
  return matrixOf(planes, w.inPlaces(), Values(static_cast<std::size_t>(planes * w.inPlaces()), -1.0));
}

} // namespace

TEST_CASE("The gradient of max pooling is the same, gathered or scattered", "[nn]") {
  for (const WindowPlan& w : cases()) {
    Values input = normals(planes * w.inPlaces(), 1);
    for (double& value : input) value = std::round(value); // some windows have their largest value twice
    const Matrix in = matrixOf(planes, w.inPlaces(), input),
                 grad = matrixOf(planes, w.outPlaces(), normals(planes * w.outPlaces(), 2)),
                 out = makeMatrix("partita::test::out", planes, w.outPlaces()),
                 place = makeMatrix("partita::test::place", planes, w.outPlaces()),
                 scattered = gradientBuffer(w), gathered = gradientBuffer(w);
    forEachRun(space, "partita::test::pool", planes, w.outPlaces(),
               pooling::Largest{w, in.data(), out.data(), place.data()});
    Kokkos::parallel_for("partita::test::scatter", Range(space, 0, planes),
                         pooling::LargestGradient{w, place.data(), grad.data(), scattered.data()});
    forEachElement(space, "partita::test::gather", planes, w.inPlaces(),
                   pooling::GatherLargestGradient{w, place.data(), grad.data(), gathered.data()});
    fence(space, "partita::test");
    CHECK(valuesOf(gathered) == valuesOf(scattered));
  }
}

TEST_CASE("The gradient of average pooling is the same, gathered or scattered", "[nn]") {
  for (const WindowPlan& w : cases()) {
    const Matrix grad = matrixOf(planes, w.outPlaces(), normals(planes * w.outPlaces(), 2)),
                 scattered = gradientBuffer(w), gathered = gradientBuffer(w);
    Kokkos::parallel_for("partita::test::scatter", Range(space, 0, planes),
                         pooling::MeanGradient{w, grad.data(), scattered.data()});
    forEachElement(space, "partita::test::gather", planes, w.inPlaces(),
                   pooling::GatherMeanGradient{w, grad.data(), gathered.data()});
    fence(space, "partita::test");
    CHECK(relativeError(valuesOf(gathered), valuesOf(scattered)) < (sizeof(Real) == 4 ? 1e-6 : 1e-14));
  }
}

} // namespace partita::test::nn_pool_gradients
