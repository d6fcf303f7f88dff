#include "partita/nn/stage.hpp"

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/images.hpp"

namespace partita::test::nn_batch_norm {

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t rows = 4, channels = 2, places = 3;

/// Two channels of three positions, in a batch of four.
class Norm {
 public:
  Norm() : _layer(makeLayer(plan())) {
    _layer->bind({_parameters, _gradients});
    _layer->bindStatistics(_statistics);
    StagePlan stage;
    stage.layers = {plan()};
    const std::vector<Real> start = Stage::initialValues(stage, 1);
    assign(_parameters, {start.begin(), start.end()});
    std::vector<Real> values(static_cast<std::size_t>(2 * channels));
    _layer->initialiseStatistics(values.data());
    assign(_statistics, {values.begin(), values.end()});
  }

  static LayerPlan plan() {
    LayerPlan plan;
    plan.spec.type = "batch-norm";
    plan.spec.batch_norm.momentum = 0.25;
    plan.in = plan.out = {channels, 1, places};
    return plan;
  }

  Values forward(const Values& in, bool training, bool again = false) {
    Pass pass;
    pass.training = training;
    pass.again = again;
    pass.work = Vector("partita::test::work", static_cast<std::size_t>(plan().workValues(rows)));
    const Matrix out = makeMatrix("partita::test::out", rows, channels * places);
    const Matrix saved = makeMatrix("partita::test::saved", rows, _layer->savedValues());
    _layer->forward(space, pass, matrixOf(rows, channels * places, asInMemory(in, plan().in)), out, saved);
    return asInShape(valuesOf(out), plan().out);
  }
  Values statistics() const { return valuesOf(_statistics); }

 private:
  std::unique_ptr<Layer> _layer;
  Vector _parameters{"partita::test::parameters", 2 * tensor_granule},
      _gradients{"partita::test::gradients", 2 * tensor_granule},
      _statistics{"partita::test::statistics", 2 * channels};
};

struct Moments {
  double mean = 0.0, variance = 0.0;
};

Moments momentsOf(const Values& values, std::int64_t channel) {
  Moments m;
  const auto each = [&](const auto& take) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t place = 0; place < places; ++place)
        take(values[static_cast<std::size_t>((row * channels + channel) * places + place)]);
  };
  each([&](double value) { m.mean += value / (rows * places); });
  each([&](double value) { m.variance += (value - m.mean) * (value - m.mean) / (rows * places); });
  return m;
}

Values batch() {
  Values values = normals(rows * channels * places, 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 100.0 + 3.0 * values[i]; // mean >> deviation
  return values;
}

} // namespace

TEST_CASE("BatchNorm: a batch in training has mean 0 and variance 1, channel by channel", "[nn]") {
  Norm norm;
  const Values out = norm.forward(batch(), true);
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    CHECK(momentsOf(out, channel).mean == Approx(0.0).margin(1e-5));
    CHECK(momentsOf(out, channel).variance == Approx(1.0).epsilon(1e-4));
  }
}

TEST_CASE("BatchNorm: running statistics follow each batch once, and evaluation takes them", "[nn]") {
  Norm norm;
  norm.forward(batch(), true);
  const Values after_one = norm.statistics();
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const Moments m = momentsOf(batch(), channel);
    const double unbiased = m.variance * rows * places / (rows * places - 1);
    CHECK(after_one[static_cast<std::size_t>(channel)] == Approx(0.25 * m.mean));
    CHECK(after_one[static_cast<std::size_t>(channels + channel)] == Approx(0.75 + 0.25 * unbiased));
  }
  norm.forward(batch(), true, true); // a repeated pass
  norm.forward(batch(), false);
  CHECK(norm.statistics() == after_one);
  for (int i = 0; i < 100; ++i) norm.forward(batch(), true);
  const Values trained = norm.forward(batch(), true), evaluated = norm.forward(batch(), false);
  const double correction = std::sqrt((rows * places - 1.0) / (rows * places)); // for the unbiased variance
  for (std::size_t i = 0; i < trained.size(); ++i)
    CHECK(evaluated[i] == Approx(correction * trained[i]).margin(1e-3));
}

} // namespace partita::test::nn_batch_norm
