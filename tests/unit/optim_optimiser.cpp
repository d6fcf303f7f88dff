#include "partita/optim/optimiser.hpp"

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::optim_optimiser {

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t size = 5000; // more than the kernel takes at once
constexpr int steps = 6;
constexpr double rate = 0.01;

Values gradientOf(int step) {
  return normals(size, static_cast<std::uint64_t>(100 + step));
}

/// Parameters after some steps with a varying rate.
Values train(const OptimiserSection& section, double factor = 1.0) {
  const auto optimiser = makeOptimiser(section, size);
  const Vector parameters = vectorOf(normals(size, 1));
  const Vector device_factor = factor == 1.0 ? Vector() : vectorOf({factor});
  for (int t = 1; t <= steps; ++t)
    optimiser->step(space, {parameters, vectorOf(gradientOf(t)), {}}, rate * t, device_factor);
  CHECK(optimiser->steps() == steps);
  return valuesOf(parameters);
}

/// The same, value by value: `update(p, g, rate, t)`.
template <class MakeUpdate>
Values byHand(const MakeUpdate& make_update) {
  Values parameters = normals(size, 1);
  std::vector<Values> gradients;
  for (int t = 1; t <= steps; ++t) gradients.push_back(gradientOf(t));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto update = make_update();
    for (int t = 1; t <= steps; ++t)
      update(parameters[i], gradients[static_cast<std::size_t>(t - 1)][i], rate * t, t);
  }
  return parameters;
}

void checkSame(const Values& found, const Values& expected) {
  CHECK(relativeError(found, expected) < (sizeof(Real) == 4 ? 3e-7 : 1e-14));
  CHECK(relativeError(found, normals(size, 1)) > 1e-3); // the parameters have changed
}

OptimiserSection sgd(double momentum, bool nesterov, double decay) {
  OptimiserSection section;
  section.kind = OptimiserKind::sgd;
  section.momentum = momentum;
  section.nesterov = nesterov;
  section.weight_decay = decay;
  return section;
}

OptimiserSection adam(OptimiserKind kind, double decay) {
  OptimiserSection section;
  section.kind = kind;
  section.beta1 = 0.8;
  section.beta2 = 0.95;
  section.epsilon = 1e-3;
  section.weight_decay = decay;
  return section;
}

Values adamByHand(const OptimiserSection& section, double factor = 1.0) {
  const double b1 = section.beta1, b2 = section.beta2, decay = section.weight_decay;
  return byHand([&] {
    return [=, m = 0.0, v = 0.0](double& p, double g, double lr, int t) mutable {
      g *= factor;
      if (section.kind == OptimiserKind::adam) g += decay * p;
      if (section.kind == OptimiserKind::adamw) p -= lr * decay * p;
      m = b1 * m + (1 - b1) * g;
      v = b2 * v + (1 - b2) * g * g;
      p -= lr * (m / (1 - std::pow(b1, t))) / (std::sqrt(v / (1 - std::pow(b2, t))) + section.epsilon);
    };
  });
}

} // namespace

TEST_CASE("Plain gradient descent", "[optim]") {
  for (const double decay : {0.0, 0.1}) {
    checkSame(train(sgd(0.0, false, decay)), byHand([&] {
                return [=](double& p, double g, double lr, int) { p -= lr * (g + decay * p); };
              }));
  }
}

TEST_CASE("Momentum, plain and Nesterov's", "[optim]") {
  for (const bool nesterov : {false, true}) {
    for (const double decay : {0.0, 0.1}) {
      INFO("nesterov " << nesterov << ", decay " << decay);
      checkSame(train(sgd(0.9, nesterov, decay)), byHand([&] {
                  return [=, v = 0.0](double& p, double g, double lr, int) mutable {
                    g += decay * p;
                    v = 0.9 * v + g;
                    p -= lr * (nesterov ? g + 0.9 * v : v);
                  };
                }));
    }
  }
}

TEST_CASE("Adam adds weight decay to the gradient, AdamW takes it from the parameters", "[optim]") {
  for (const OptimiserKind kind : {OptimiserKind::adam, OptimiserKind::adamw}) {
    for (const double decay : {0.0, 0.5}) {
      INFO("adamw " << (kind == OptimiserKind::adamw) << ", decay " << decay);
      const OptimiserSection section = adam(kind, decay);
      checkSame(train(section), adamByHand(section));
    }
  }
  CHECK(train(adam(OptimiserKind::adam, 0.5)) != train(adam(OptimiserKind::adamw, 0.5)));
  CHECK(train(adam(OptimiserKind::adam, 0.0)) == train(adam(OptimiserKind::adamw, 0.0)));
}

TEST_CASE("The first step of Adam is as long as the rate, however slowly its moments change", "[optim]") {
  for (const double slow : {0.9, 0.999999, 0.99999999}) {
    for (const bool first : {true, false}) {
      INFO(slow << (first ? " for beta1" : " for beta2"));
      OptimiserSection section = adam(OptimiserKind::adam, 0.0);
      (first ? section.beta1 : section.beta2) = slow;
      section.epsilon = 0.0;
      const Vector parameters = vectorOf(Values(size, 0.0));
      makeOptimiser(section, size)
          ->step(space, {parameters, vectorOf(Values(size, 2.0)), {}}, rate, Vector());
      CHECK(relativeError(valuesOf(parameters), Values(size, -rate)) < 1e-5);
    }
  }
}

TEST_CASE("The factor of clipping multiplies the gradient, not the decay", "[optim]") {
  const OptimiserSection section = adam(OptimiserKind::adam, 0.5);
  checkSame(train(section, 0.25), adamByHand(section, 0.25));
  checkSame(train(sgd(0.0, false, 0.5), 0.25), byHand([&] {
              return [=](double& p, double g, double lr, int) { p -= lr * (0.25 * g + 0.5 * p); };
            }));
}

TEST_CASE("Parameters that do not learn stay, whatever their decay and moments", "[optim]") {
  constexpr std::int64_t learning = 3001;
  for (const OptimiserSection& section :
       {sgd(0.9, true, 0.1), adam(OptimiserKind::adam, 0.1), adam(OptimiserKind::adamw, 0.1)}) {
    const auto optimiser = makeOptimiser(section, size);
    const Vector parameters = vectorOf(normals(size, 1)), gradients = vectorOf(gradientOf(1));
    optimiser->step(space, {parameters, gradients, {}}, rate, Vector());
    const Values before = valuesOf(parameters);
    optimiser->learnOnly(learning);
    optimiser->step(space, {parameters, gradients, {}}, rate, Vector());
    const Values after = valuesOf(parameters);
    std::int64_t changed = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      changed += after[i] != before[i] ? 1 : 0;
      if (i >= static_cast<std::size_t>(learning)) CHECK(after[i] == before[i]);
    }
    CHECK(changed > learning - 10);
  }
}

TEST_CASE("Optimisers show their state and their traffic", "[optim]") {
  const int value = sizeof(Real);
  CHECK(makeOptimiser(sgd(0.0, false, 0.0), size)->state().empty());
  CHECK(makeOptimiser(sgd(0.0, false, 0.0), size)->bytesPerParameter() == 3 * value);
  const auto momentum = makeOptimiser(sgd(0.9, false, 0.0), size);
  CHECK(momentum->bytesPerParameter() == 5 * value);
  REQUIRE(momentum->state().size() == 1);
  CHECK(momentum->state()[0].name == "momentum");

  const auto moments = makeOptimiser(adam(OptimiserKind::adam, 0.0), size);
  CHECK(moments->bytesPerParameter() == 7 * value);
  REQUIRE(moments->state().size() == 2);
  const Vector parameters = vectorOf(normals(size, 1)), gradients = vectorOf(gradientOf(1));
  moments->step(space, {parameters, gradients, {}}, rate, Vector());
  CHECK(moments->state()[0].name == "first_moment");
  CHECK(valuesOf(moments->state()[0].values.device())[7] == Approx(0.2 * gradientOf(1)[7]));
  CHECK(moments->state()[1].name == "second_moment");
  CHECK(valuesOf(moments->state()[1].values.device())[7] == Approx(0.05 * std::pow(gradientOf(1)[7], 2)));
}

} // namespace partita::test::optim_optimiser
