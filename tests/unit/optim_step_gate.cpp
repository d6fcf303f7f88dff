#include "partita/nn/loss.hpp"
#include "partita/optim/optimiser.hpp"

#include <limits>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::optim_step_gate {

/// On a device the host does not know whether a step was left out; the result must be that of a host which
/// does.

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t size = 5000;
constexpr double rate = 0.01;
constexpr double infinity = std::numeric_limits<double>::infinity();

OptimiserSection sectionOf(OptimiserKind kind) {
  OptimiserSection section;
  section.kind = kind;
  section.momentum = 0.9;
  section.weight_decay = 0.01;
  return section;
}

Values gradientOf(int step) {
  Values gradient = normals(size, static_cast<std::uint64_t>(100 + step));
  if (step == 2 || step == 3) gradient[size / 2] = infinity;
  if (step == 5) gradient[0] = std::numeric_limits<double>::quiet_NaN();
  return gradient;
}
bool isTaken(int step) {
  return step != 2 && step != 3 && step != 5;
}

constexpr int steps = 8;

Values byHost(const OptimiserSection& section) {
  const auto optimiser = makeOptimiser(section, size);
  const Vector parameters = vectorOf(normals(size, 1));
  for (int t = 0; t < steps; ++t)
    if (isTaken(t))
      optimiser->step(space, {parameters, vectorOf(gradientOf(t)), {}}, rate * (t + 1), Vector());
  CHECK(optimiser->steps() == 5);
  return valuesOf(parameters);
}

Values byDevice(const OptimiserSection& section) {
  const auto optimiser = makeOptimiser(section, size);
  const Vector parameters = vectorOf(normals(size, 1));
  StepGate gate(section);
  GradientNorm norm({{0, 2000}, {2000, size - 2000}});
  for (int t = 0; t < steps; ++t) {
    const Vector gradient = vectorOf(gradientOf(t));
    norm.measure(space, gradient);
    gate.decide(space, norm, rate * (t + 1));
    optimiser->step(space, {parameters, gradient, {}}, rate * (t + 1), Vector(), {}, gate.numbers());
    CHECK((gate.read(space).left_out == 0) == isTaken(t));
  }
  CHECK(gate.read(space).taken == 5);
  CHECK(gate.read(space).longest_run == 2);
  CHECK(gate.read(space).scale.overflows == 0);
  return valuesOf(parameters);
}

} // namespace

TEST_CASE("Steps that the device leaves out change nothing, and do not count", "[optim]") {
  for (const OptimiserKind kind : {OptimiserKind::sgd, OptimiserKind::adam, OptimiserKind::adamw}) {
    const Values found = byDevice(sectionOf(kind)), expected = byHost(sectionOf(kind));
    if (device_is_host)
      CHECK(found == expected);
    else
      CHECK(relativeError(found, expected) < 1e-6); // powers have other last digits
  }
}

TEST_CASE("A gate continues after the steps of a checkpoint", "[optim]") {
  const OptimiserSection section = sectionOf(OptimiserKind::adam);
  StepNumbers before;
  before.taken = 41;
  StepGate gate(section, before);
  GradientNorm norm({{0, 2}});
  norm.measure(space, vectorOf({1.0, 2.0}));
  gate.decide(space, norm, rate);
  const StepNumbers numbers = gate.read(space);
  CHECK(numbers.taken == 42);
  CHECK(numbers.rate == Approx(rate / (1.0 - std::pow(section.beta1, 42))));
  CHECK(numbers.inverse_correction2 == Approx(1.0 / (1.0 - std::pow(section.beta2, 42))));
}

TEST_CASE("A gate changes the loss scale as a host does, after the factor of the step", "[optim]") {
  StepNumbers before;
  before.scale = LossScale(true);
  StepGate gate(sectionOf(OptimiserKind::sgd), before);
  LossScale expected(true);
  GradientNorm norm({{0, 1}});
  for (int step = 0; step < 500; ++step) {
    const bool finite = step % 230 != 210;
    norm.measure(space, vectorOf({finite ? 3.0 * expected.value : infinity}), gate.inverseScale());
    norm.clip(space, 1.5);
    gate.decide(space, norm, rate);
    if (finite) {
      CHECK(norm.squaredNorm(space) == 9.0);
      CHECK(valuesOf(norm.factor()).front() == 0.5 / expected.value);
      expected.count(true);
    } else {
      expected.count(false);
    }
    const LossScale found = gate.read(space).scale;
    CHECK(found.value == expected.value);
    CHECK(found.inverse == 1 / expected.value);
    CHECK(found.clean == expected.clean);
    CHECK(found.overflows == expected.overflows);
  }
  CHECK(expected.value == LossScale::start); // it doubled twice and was halved twice
}

TEST_CASE("What a step that is left out has changed is restored", "[optim]") {
  StepGate gate(sectionOf(OptimiserKind::sgd));
  GradientNorm norm({{0, 1}});
  for (const double gradient : {1.0, infinity}) {
    const Vector values = vectorOf({1.0, 2.0}), kept = vectorOf({3.0, 4.0});
    norm.measure(space, vectorOf({gradient}));
    gate.decide(space, norm, rate);
    restoreIfLeftOut(space, gate.numbers(), values, kept);
    CHECK(valuesOf(values) == (gradient == infinity ? Values{3.0, 4.0} : Values{1.0, 2.0}));
  }
}

TEST_CASE("A score is restored only if a loss is not finite", "[optim]") {
  Score score(2);
  const auto add = [&](double loss) {
    const Matrix results = matrixOf(1, 2, {loss, 1.0});
    const auto rows = score.perRow();
    Kokkos::deep_copy(Kokkos::subview(rows, std::make_pair(0, 1), Kokkos::ALL), results);
    score.accumulate(space, 1);
  };
  add(2.0);
  score.keep(space);
  add(3.0);
  score.restoreIfBad(space);
  CHECK(score.peek(space).loss == 5.0);
  score.keep(space);
  add(infinity);
  CHECK(score.bad(space));
  score.restoreIfBad(space);
  CHECK_FALSE(score.bad(space));
  CHECK(score.peek(space).loss == 5.0);
}

} // namespace partita::test::optim_step_gate
