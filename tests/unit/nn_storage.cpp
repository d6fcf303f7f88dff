#include "partita/nn/stage.hpp"
#include "partita/optim/optimiser.hpp"
#include "partita/plan/network_plan.hpp"

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::nn_storage {

/// Where the tensors of a stage lie.

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t rows = 6, classes = 5;

/// A convolution, a batch norm, which has statistics, and two dense layers.
StagePlan mixedStage() {
  RunConfig config;
  LayerSpec convolution, norm, dense;
  convolution.type = "conv2d";
  convolution.channels = 3;
  convolution.kernel = {{3}};
  norm.type = "batch-norm";
  norm.activation = Activation::relu;
  dense.units = 7;
  dense.activation = Activation::tanh;
  config.network.layers = {convolution, norm, dense, LayerSpec()};
  return planPartition(config, planNetwork(config.network, {2, 5, 6}, classes), classes).stages.front();
}

struct Result {
  Values masters, gradients, statistics;
  bool operator==(const Result& other) const {
    return masters == other.masters && gradients == other.gradients && statistics == other.statistics;
  }
};

Values realsOf(const Numbers& numbers) {
  const Vector values("partita::test::reals", static_cast<std::size_t>(numbers.size));
  convert(space, numbers, values);
  return valuesOf(values);
}

/// Five steps of AdamW.
Result train(Stage& stage) {
  OptimiserSection section;
  section.kind = OptimiserKind::adamw;
  section.weight_decay = 0.1;
  const auto optimiser = makeOptimiser(section, stage.masters().size());
  Tape tape = stage.makeTape(rows);
  const Matrix in = matrixOf(rows, stage.inputs(), normals(rows * stage.inputs(), 1));
  for (int step = 0; step < 5; ++step) {
    stage.forward(space, {}, in, tape);
    const Matrix grad = stage.outputGradient(rows);
    assign(grad, normals(rows * stage.outputs(), 2));
    stage.backward(space, {}, in, tape, grad, Matrix());
    optimiser->step(space, stage.trained(), 0.01, Vector());
  }
  const Trained trained = stage.trained();
  return {valuesOf(stage.masters().device()), realsOf(trained.gradients), valuesOf(stage.statistics())};
}

/// The middle third of a larger vector; what is around it stays 17.
class Middle {
 public:
  Middle(std::int64_t values, Precision precision)
      : _precision(precision), _values(values),
        _all("partita::test::all", static_cast<std::size_t>(3 * values * bytesOf(precision))) {
    Kokkos::deep_copy(_all, '\21');
  }
  Numbers numbers() const { return Numbers(_precision, _all.data(), 3 * _values).part(_values, 2 * _values); }
  bool onlyMiddleChanged() const {
    const Values all = valuesOf(_all);
    const std::size_t third = all.size() / 3;
    for (std::size_t i = 0; i < third; ++i)
      if (all[i] != 17.0 || all[2 * third + i] != 17.0) return false;
    return realsOf(numbers()) != Values(static_cast<std::size_t>(_values), 17.0);
  }
  int owners() const { return static_cast<int>(_all.use_count()); }

 private:
  Precision _precision;
  std::int64_t _values;
  Kokkos::View<char*, MemSpace> _all;
};

} // namespace

TEST_CASE("A stage in memory that it is given trains as one that allocates, bit for bit", "[nn]") {
  const StagePlan plan = mixedStage();
  const std::vector<Real> start = Stage::initialValues(plan, 1);
  for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
    INFO("precision " << static_cast<int>(precision));
    Stage own(plan, start, rows, {precision, {}, {}});
    const Result expected = train(own);
    const Middle parameters(plan.parameters(), precision), gradients(plan.parameters(), precision),
        statistics(plan.statistics(), Precision::single);
    for (int again = 0; again < 2; ++again) { // in memory that is not zero, too
      Stage given(plan, start, rows,
                  {precision, {}, {parameters.numbers(), gradients.numbers(), statistics.numbers()}});
      CHECK(train(given) == expected);
      CHECK(given.trained().parameters.data == parameters.numbers().data);
      CHECK(given.trained().gradients.data == gradients.numbers().data);
      CHECK(given.statistics().data() == statistics.numbers().data);
    }
    for (const Middle* memory : {&parameters, &gradients, &statistics}) {
      CHECK(memory->onlyMiddleChanged());
      CHECK(memory->owners() == 1);
    }
  }
}

TEST_CASE("Memory of another size or precision than a stage needs is refused", "[nn]") {
  const StagePlan plan = mixedStage();
  const std::vector<Real> start = Stage::initialValues(plan, 1);
  const Middle fits(plan.parameters(), Precision::single), shorter(plan.parameters() - 1, Precision::single),
      halves(plan.parameters(), Precision::bf16), statistics(plan.statistics() + 1, Precision::single);
  const auto refused = [&](const GivenMemory& given) {
    CHECK_THROWS_AS(Stage(plan, start, rows, {Precision::single, {}, given}), InternalError);
  };
  refused({shorter.numbers(), {}, {}});
  refused({fits.numbers(), shorter.numbers(), {}});
  refused({halves.numbers(), {}, {}});
  refused({{}, {}, statistics.numbers()});
  CHECK_NOTHROW(Stage(plan, start, rows, {Precision::single, {}, {fits.numbers(), {}, {}}}));
}

} // namespace partita::test::nn_storage
