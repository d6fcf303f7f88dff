#include "partita/nn/norm_gradients.hpp"
#include "partita/nn/stage.hpp"
#include "partita/plan/network_plan.hpp"

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::nn_sequences {

namespace {

constexpr DefaultSpace space;

LayerSpec layer(const std::string& type) {
  LayerSpec spec;
  spec.type = type;
  return spec;
}

LayerPlan planOf(const LayerSpec& spec, const Shape& input) {
  NetworkSection network;
  network.layers = {spec, LayerSpec()};
  return planNetwork(network, input, 2).front();
}

/// A layer with its initial parameters.
class Alone {
 public:
  explicit Alone(const LayerPlan& plan) : _plan(plan), _layer(makeLayer(plan)) {
    StagePlan stage;
    stage.layers = {plan};
    const std::vector<Real> values = Stage::initialValues(stage, 1);
    _parameters = vectorOf({values.begin(), values.end()});
    _gradients = vectorOf(Values(values.size(), 0.0));
    _layer->bind({_parameters, _gradients});
  }

  Values forward(const Values& in, Pass pass = {}) {
    const auto rows = static_cast<std::int64_t>(in.size()) / _plan.inputs();
    pass.work = Vector("partita::test::work", static_cast<std::size_t>(_plan.workValues(rows)));
    const Matrix out = makeMatrix("partita::test::out", rows, _plan.outputs()),
                 saved = makeMatrix("partita::test::saved", rows, _plan.savedValues());
    _layer->forward(space, pass, matrixOf(rows, _plan.inputs(), in), out, saved);
    return valuesOf(out);
  }

 private:
  LayerPlan _plan;
  std::unique_ptr<Layer> _layer;
  Vector _parameters, _gradients;
};

double differenceOf(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  double most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

} // namespace

TEST_CASE("A position of attention does not see later positions", "[nn]") {
  LayerSpec spec = layer("attention");
  spec.attention.heads = 3;
  constexpr std::int64_t positions = 150, width = 12, seen = 90;
  Alone attention(planOf(spec, {positions, width}));
  Values in = normals(positions * width, 3);
  const Values before = attention.forward(in);
  for (std::size_t i = seen * width; i < in.size(); ++i) in[i] = -5.0 * in[i];
  const Values after = attention.forward(in);
  CHECK(Values(before.begin(), before.begin() + seen * width) ==
        Values(after.begin(), after.begin() + seen * width));
  CHECK(differenceOf(before, after) > 0.1);
}

TEST_CASE("Norms of any width leave room in the scratch of a team", "[nn]") {
  constexpr std::int64_t all = 48 << 10; // bytes on a device
  for (std::int64_t sums = 1; sums < 20000; ++sums) {
    const std::int64_t threads = threadsOfGroup(sums), bytes = sums * std::int64_t{sizeof(Real)};
    const std::int64_t of_kokkos =
        8 * (threads + 2) + 8; // a sum of each thread and two more, and the alignment
    CHECK(threads * bytes + of_kokkos <= all);
    CHECK((threads >= 4 || (threads + 1) * bytes > all - 1024)); // and use it
  }
  CHECK(threadsOfGroup(2 * 768) == (sizeof(Real) == 4 ? 4 : 3));
}

TEST_CASE("Attention keeps nothing as large as positions x positions", "[nn]") {
  LayerSpec spec = layer("attention");
  spec.attention.heads = 4;
  const LayerPlan small = planOf(spec, {1000, 64}), large = planOf(spec, {4000, 64});
  CHECK(large.keptValues() == 4 * small.keptValues());
  CHECK(large.workValues(3) == 4 * small.workValues(3));
}

TEST_CASE("Dropout drops its share, keeps the mean, and passes all on outside training", "[nn]") {
  LayerSpec spec = layer("dropout");
  spec.dropout.rate = 0.25;
  Alone dropout(planOf(spec, {400, 50}));
  const Values ones(20000, 1.0);
  const Values out = dropout.forward(ones);
  double sum = 0.0, dropped = 0.0;
  for (const double value : out) {
    sum += value;
    dropped += value == 0.0 ? 1.0 : 0.0;
    CHECK((value == 0.0 || value == Approx(4.0 / 3.0)));
  }
  CHECK(dropped / 20000 == Approx(0.25).margin(0.01));
  CHECK(sum / 20000 == Approx(1.0).margin(0.015));
  Pass inference;
  inference.training = false;
  CHECK(dropout.forward(ones, inference) == ones);
}

TEST_CASE("Masks are a function of seed, step, row of the batch and layer", "[nn]") {
  NetworkSection network;
  network.layers = {layer("dropout"), layer("dropout"), LayerSpec()};
  network.layers[0].dropout.rate = network.layers[1].dropout.rate = 0.5;
  const auto plans = planNetwork(network, {33}, 2);
  Alone first(plans[0]), second(plans[1]);
  const Values ones(6 * 33, 1.0);
  Pass pass;
  pass.seed = 7;
  pass.step = 3;
  const Values whole = first.forward(ones, pass);
  CHECK(whole == first.forward(ones, pass));
  CHECK(whole != second.forward(ones, pass));
  pass.first_row = 4; // the share of another replica, or a later microbatch
  CHECK(first.forward(Values(2 * 33, 1.0), pass) == Values(whole.begin() + 4 * 33, whole.end()));
  pass.first_row = 0;
  pass.step = 4;
  CHECK(whole != first.forward(ones, pass));
  pass.step = 3;
  pass.seed = 8;
  CHECK(whole != first.forward(ones, pass));
}

} // namespace partita::test::nn_sequences
