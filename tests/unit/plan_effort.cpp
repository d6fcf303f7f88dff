#include "partita/config/deck.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/partition.hpp"

#include "support/catch.hpp"

namespace partita::test::plan_effort {

namespace {

std::vector<LayerPlan> planOf(const std::string& layers, const Shape& input) {
  return planNetwork(parseDeck("[network]\nlayers = [" + layers + "]\n", "deck.toml").network, input, 10);
}

Partition cut(const std::string& strategy, const std::string& layers, const Shape& input) {
  const RunConfig config =
      parseDeck("[network]\nlayers = [" + layers + "]\n[strategy]\n" + strategy, "deck.toml");
  return planPartition(config, planNetwork(config.network, input, 10), 10);
}

void checkMoves(const LayerPlan& layer, double forward, double parameters, double input) {
  INFO(layer.name());
  CHECK(layer.forwardEffort().moved == forward);
  CHECK(layer.weightEffort().moved == parameters);
  CHECK(layer.inputEffort().moved == input);
}

} // namespace

TEST_CASE("What kernels other than products read and write", "[plan]") {
  const auto layers = planOf(R"({ type = "conv2d", channels = 8, kernel = 3, padding = 1, bias = false },
    { type = "batch-norm", activation = "relu" },
    { type = "conv2d", channels = 6, kernel = 1, bias = false },
    { type = "residual", layers = [{ type = "activation", activation = "relu" }] },
    { type = "dense", units = 7, activation = "tanh" }, { type = "dense", bias = false })",
                             {2, 4, 5});
  const double places = 20, columns = 2 * 9 * places, eight = 8 * places, six = 6 * places;
  checkMoves(layers[0], 2 * columns + 2 * eight, 2 * columns + 2 * eight, 3 * columns + 2 * places);
  checkMoves(layers[1], 4 * eight, 5 * eight, 3 * eight);
  checkMoves(layers[2], 0, 0, 0); // a product alone
  checkMoves(layers[3], 3 * six + 2 * six, 5 * six, 3 * six + 3 * six);
  checkMoves(layers[4], 2 * 7, 3 * 7, 0);
  checkMoves(layers[5], 0, 0, 0);
}

TEST_CASE("A group in front of a stage gives up only the gradient of its own input", "[plan]") {
  const std::string dense = R"({ type = "dense", units = 6 })", layer = dense + ", " + dense + ", " + dense;
  const auto plain = planOf(layer + R"(, { type = "dense" })", {6});
  const auto grouped = planOf(R"({ type = "block", layers = [)" + layer + R"(] }, { type = "dense" })", {6});
  CHECK(TrainingEffort(grouped).of(0, 1).flops == TrainingEffort(plain).of(0, 3).flops);
  CHECK(TrainingEffort(grouped).of(0, 2).flops == TrainingEffort(plain).of(0, 4).flops);
  CHECK(TrainingEffort(grouped).of(0, 2).moved == TrainingEffort(plain).of(0, 4).moved);
}

TEST_CASE("Cuts balance work, and leave no stage without parameters", "[plan]") {
  // The places of the first layer are most of the work, although it has a twentieth of the FLOPs.
  const std::string layers =
      R"({ type = "conv2d", channels = 4, kernel = 3, padding = 1, activation = "relu" },
    { type = "average-pool", kernel = 2 }, { type = "average-pool", kernel = 2 },
    { type = "dense", units = 512, activation = "relu" }, { type = "dense" })";
  const Partition partition = cut("kind = \"pipeline\"\nstages = 3\n", layers, {1, 64, 64});
  for (const StagePlan& stage : partition.stages) CHECK(stage.parameters() > 0);
  const Partition by_memory = cut("kind = \"sil\"\nstages = 2\ncuts = \"memory\"\n",
                                  R"({ type = "average-pool", kernel = 5, stride = 1 },
    { type = "average-pool", kernel = 20 }, { type = "dense", units = 3 }, { type = "dense" })",
                                  {1, 32, 32});
  for (const StagePlan& stage : by_memory.stages) CHECK(stage.parameters() > 0);
  const Partition two = cut("kind = \"pipeline\"\nstages = 2\n", layers, {1, 64, 64});
  CHECK(two.local[0].flops < 0.2 * two.local[1].flops);
  CHECK(two.local[0].total() > two.local[1].total());
  CHECK(two.allowedSpeedup() == two.joint.total() / two.local[0].total());
}

} // namespace partita::test::plan_effort
