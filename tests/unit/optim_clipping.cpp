#include "partita/optim/gradient_norm.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::optim_clipping {

namespace {

constexpr DefaultSpace space;

double factorOf(GradientNorm& norm, double clip, std::optional<double> squares = std::nullopt) {
  norm.clip(space, clip, squares);
  return valuesOf(norm.factor())[0];
}

} // namespace

TEST_CASE("The norm is that of all tensors together, whatever their sizes", "[optim]") {
  for (const std::int64_t size : {1, 15, 16, 17, 4096, 4097, 20000}) {
    const Values gradients = normals(size + 3, 1);
    GradientNorm norm({{0, size}, {size, 3}});
    norm.measure(space, vectorOf(gradients));
    CHECK(norm.squaredNorm(space) == Approx(dot(gradients, gradients)).epsilon(1e-5));
    norm.measure(space, vectorOf(gradients)); // replaces the previous norm
    CHECK(norm.squaredNorm(space) == Approx(dot(gradients, gradients)).epsilon(1e-5));
  }
}

TEST_CASE("A norm above the limit is scaled down to it, one below is left alone", "[optim]") {
  GradientNorm norm({{0, 2}});
  norm.measure(space, vectorOf({3.0, 4.0}));
  CHECK(factorOf(norm, 1.0) == Approx(0.2));
  CHECK(factorOf(norm, 4.999) == Approx(4.999 / 5.0));
  CHECK(factorOf(norm, 5.0) == 1.0);
  CHECK(factorOf(norm, 100.0) == 1.0);
}

TEST_CASE("Gradients whose squares are beyond float have a norm", "[optim]") {
  GradientNorm norm({{0, 2}});
  const Values large = {3e30, 4e30};
  norm.measure(space, vectorOf(large));
  CHECK(std::sqrt(norm.squaredNorm(space)) == Approx(5e30));
  CHECK(factorOf(norm, 1e30) == Approx(0.2));
}

TEST_CASE("Tensors elsewhere take part in clipping", "[optim]") {
  GradientNorm norm({{0, 1}});
  norm.measure(space, vectorOf({3.0}));
  CHECK(factorOf(norm, 1.0, 25.0) == Approx(0.2));
  CHECK(factorOf(norm, 1.0) == Approx(1.0 / 3.0));
}

TEST_CASE("A zero gradient is not scaled", "[optim]") {
  GradientNorm norm({{0, 2}});
  norm.measure(space, vectorOf({0.0, 0.0}));
  CHECK(factorOf(norm, 1.0) == 1.0);
}

TEST_CASE("The norm does not depend on where the network is cut", "[optim]") {
  const Values gradients = normals(300, 1);
  GradientNorm whole({{0, 100}, {100, 200}}), front({{0, 100}}), back({{0, 200}});
  whole.measure(space, vectorOf(gradients));
  front.measure(space, vectorOf({gradients.begin(), gradients.begin() + 100}));
  back.measure(space, vectorOf({gradients.begin() + 100, gradients.end()}));
  CHECK(whole.squaredNorm(space) == front.squaredNorm(space) + back.squaredNorm(space));
}

TEST_CASE("The scale of a loss is divided out of squares and factors", "[optim]") {
  GradientNorm norm({{0, 1}, {1, 1}});
  norm.measure(space, vectorOf({3.0 * 1024, 4.0 * 1024}), Real(1.0 / 1024));
  CHECK(norm.squares(space) == std::vector<double>{9.0, 16.0});
  CHECK(norm.squaredNorm(space) == 25.0);
  CHECK(factorOf(norm, 1.0) == Approx(0.2 / 1024));
  CHECK(factorOf(norm, 10.0) == Approx(1.0 / 1024));
  CHECK(factorOf(norm, 1.0, 100.0) == Approx(0.1 / 1024));
}

} // namespace partita::test::optim_clipping
