#include "partita/nn/stage.hpp"
#include "partita/plan/network_plan.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/images.hpp"
#include "support/stored_values.hpp"

namespace partita::test::nn_group_norm {

namespace {

constexpr DefaultSpace space;

LayerPlan planOf(std::int64_t groups, const Shape& shape, double epsilon = 1e-5) {
  LayerSpec spec, last;
  spec.type = "group-norm";
  spec.group_norm = {groups, epsilon};
  last.dense.units = 2;
  NetworkSection network;
  network.layers = {spec, last};
  return planNetwork(network, shape, 2).front();
}

/// The outputs of the layer with these parameters, or with its starting values.
Values outputsOf(const LayerPlan& plan, const Values& in, const Values& parameters = {},
                 bool training = true) {
  StagePlan stage;
  stage.layers = {plan};
  const std::vector<Real> start = Stage::initialValues(stage, 1);
  const Vector bound = vectorOf(parameters.empty() ? Values(start.begin(), start.end())
                                                   : asStored(stage.layers, parameters)),
               gradients = vectorOf(Values(start.size(), 0.0));
  const auto layer = makeLayer(plan);
  layer->bind({bound, gradients});
  const auto rows = static_cast<std::int64_t>(in.size()) / plan.inputs();
  const Matrix out = makeMatrix("partita::test::out", rows, plan.outputs()),
               saved = makeMatrix("partita::test::saved", rows, plan.savedValues());
  Pass pass;
  pass.training = training;
  pass.work = Vector("partita::test::work", static_cast<std::size_t>(plan.workValues(rows)));
  layer->forward(space, pass, matrixOf(rows, plan.inputs(), asInMemory(in, plan.in)), out, saved);
  return asInShape(valuesOf(out), plan.out);
}

/// The formula, one value after another.
Values byHand(const LayerPlan& plan, const Values& in, const Values& parameters) {
  const auto channels = static_cast<std::size_t>(plan.in.front()),
             places = static_cast<std::size_t>(plan.inputs()) / channels,
             size = channels * places / static_cast<std::size_t>(plan.spec.group_norm.groups);
  Values out(in.size());
  for (std::size_t begin = 0; begin < in.size(); begin += size) {
    double mean = 0.0, variance = 0.0;
    for (std::size_t i = begin; i < begin + size; ++i) mean += in[i] / static_cast<double>(size);
    for (std::size_t i = begin; i < begin + size; ++i)
      variance += (in[i] - mean) * (in[i] - mean) / static_cast<double>(size);
    for (std::size_t i = begin; i < begin + size; ++i) {
      const std::size_t channel = i / places % channels;
      out[i] = parameters[channel] * (in[i] - mean) / std::sqrt(variance + plan.spec.group_norm.epsilon) +
               parameters[channels + channel];
    }
  }
  return out;
}

double largestDifference(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  double most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

/// Far from zero: the mean is much larger than the deviation.
Values batch(const LayerPlan& plan, std::int64_t rows) {
  Values values = normals(rows * plan.inputs(), 3);
  for (double& value : values) value = 20.0 + 3.0 * value;
  return values;
}

} // namespace

TEST_CASE("GroupNorm: vectors, images and volumes as plain loops have them", "[nn]") {
  for (const Shape& shape : {Shape{12}, Shape{12, 5, 7}, Shape{12, 2, 3, 4}}) {
    for (const std::int64_t groups : {1, 3, 6}) {
      for (const double epsilon : {1e-5, 0.5}) {
        const LayerPlan plan = planOf(groups, shape, epsilon);
        INFO(toText(shape) << ", " << groups << " groups");
        const Values in = batch(plan, 3), parameters = normals(plan.parameters(), 4);
        CHECK(plan.out == shape);
        CHECK(largestDifference(outputsOf(plan, in, parameters), byHand(plan, in, parameters)) < 5e-5);
      }
    }
  }
}

TEST_CASE("GroupNorm: starts with scale 1 and shift 0, and evaluates as it trains", "[nn]") {
  const LayerPlan plan = planOf(2, {4, 3, 3});
  const Values in = batch(plan, 2), out = outputsOf(plan, in);
  CHECK(largestDifference(out, byHand(plan, in, {1, 1, 1, 1, 0, 0, 0, 0})) < 5e-5);
  CHECK(outputsOf(plan, in, {}, false) == out);
}

TEST_CASE("GroupNorm: a sample's outputs do not depend on the others of its batch", "[nn]") {
  const LayerPlan plan = planOf(3, {6, 4, 4});
  const Values in = batch(plan, 5), out = outputsOf(plan, in);
  const auto width = plan.inputs();
  for (std::int64_t row = 0; row < 5; ++row) {
    const Values alone = outputsOf(plan, {in.begin() + row * width, in.begin() + (row + 1) * width});
    CHECK(alone == Values(out.begin() + row * width, out.begin() + (row + 1) * width));
  }
}

} // namespace partita::test::nn_group_norm
