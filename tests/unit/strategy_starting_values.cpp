#include "partita/strategy/sil/starting_values.hpp"

#include <numeric>

#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/small_model.hpp"

namespace partita::test::strategy_starting_values {

namespace {

constexpr std::int64_t classes = 5;

} // namespace

TEST_CASE("The bias of a channel starts at the mean label of its places", "[strategy][sil]") {
  constexpr std::size_t channels = 4, places = 9;
  RunConfig config = smallConfig(2);
  LayerSpec convolution;
  convolution.type = "conv2d";
  convolution.convolution.channels = channels;
  convolution.convolution.kernel = {{3}};
  config.network.layers = {convolution, LayerSpec()};
  const SmallModel model(config, Shape{2, 5, 5}, classes);
  const LocalStage& first = *model.stages.front();
  const std::vector<double>& means = first.labels.mean;
  REQUIRE(means.size() == channels * places);
  const Values parameters = valuesOf(first.stage.parameters());
  const StageTensor& bias = first.stage.tensors().back();
  REQUIRE(bias.name == "bias");
  for (std::size_t c = 0; c < channels; ++c) {
    const auto begin = means.begin() + static_cast<std::ptrdiff_t>(c * places);
    const double mean = std::accumulate(begin, begin + places, 0.0) / places;
    CHECK(parameters[static_cast<std::size_t>(bias.offset) + c] == Approx(mean).margin(1e-6));
  }
}

/// It drops half of what it gets.
TEST_CASE("A stage with an entrance passes labels on twice as strongly", "[strategy][sil]") {
  const SmallModel model(smallConfig(4), 12, classes);
  StagePlan plan = model.partition.stages[2];
  REQUIRE(plan.entrance);
  const auto passed = [&] {
    std::vector<Real> values(static_cast<std::size_t>(plan.storedValues())); // without random weights
    startFromLabels(model.config, plan, model.stages[2]->labels, classes, values);
    values.resize(static_cast<std::size_t>(plan.inputs() * plan.outputs()));
    return values;
  };
  const std::vector<Real> with_entrance = passed();
  plan.entrance = false;
  std::vector<Real> twice = passed();
  for (Real& value : twice) value *= 2;
  CHECK(with_entrance[0] != 0);
  CHECK(with_entrance == twice);
}

} // namespace partita::test::strategy_starting_values
