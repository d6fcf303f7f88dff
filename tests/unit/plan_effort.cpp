#include "partita/config/deck.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/run_flops.hpp"

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

namespace {

/// Of a run of 12 steps with batches of 8 samples, then two of a recovery if the strategy has one.
RunFlops flopsOf(const std::string& strategy, const std::string& layers, const Shape& input,
                 std::int64_t recovery_steps = 0) {
  const RunConfig config =
      parseDeck("[network]\nlayers = [" + layers + "]\n[training]\nbatch = 8\n" + strategy, "deck.toml");
  RunLength length;
  length.steps = 12;
  length.per_epoch = 5;
  length.epoch_samples = 40;
  length.recovery_steps = recovery_steps;
  return runFlops(config, planPartition(config, planNetwork(config.network, input, 10), 10), length);
}

} // namespace

TEST_CASE("FLOPs of a model are without repeated forward passes", "[plan]") {
  const std::string dense = R"({ type = "dense", units = 6 })", last = R"(, { type = "dense" })";
  const auto block = [](const std::string& layers, const char* recompute) {
    return R"({ type = "block", recompute = )" + std::string(recompute) + ", layers = [" + layers + "] }";
  };
  const std::string twice = dense + ", " + dense, plain = block(twice, "false") + last,
                    nested = block(block(dense, "true") + ", " + dense, "true") + last;
  constexpr double samples = 96, product = 2 * 36, output = 2 * 60; // of a forward pass
  for (const char* kind : {"joint", "pipeline"}) {
    const std::string strategy = "[strategy]\nkind = \"" + std::string(kind) + "\"\nstages = 2\n";
    const RunFlops expected = flopsOf(strategy, plain, {6});
    CHECK(expected.hardware == samples * (5 * product + 3 * output)); // nothing before needs a gradient
    CHECK(expected.model == expected.hardware);
    const RunFlops all = flopsOf(strategy, block(twice, "true") + last, {6});
    CHECK(all.hardware == expected.hardware + samples * 2 * product);
    CHECK(all.model == expected.model);
    const RunFlops inside = flopsOf(strategy, nested, {6}); // also within the repeated pass
    CHECK(inside.hardware == expected.hardware + samples * 3 * product);
    CHECK(inside.model == expected.model);
  }
  const std::string sil = "[strategy]\nkind = \"sil\"\nstages = 2\nrecovery_epochs = 1\n";
  const RunFlops stages = flopsOf(sil, plain, {6}, 2),
                 repeats = flopsOf(sil, block(twice, "true") + last, {6}, 2);
  CHECK(repeats.hardware == stages.hardware + (samples + 16) * 2 * product);
  CHECK(repeats.model == stages.model);
}

TEST_CASE("Attention computes its scores again, which counts for the hardware only", "[plan]") {
  const RunFlops flops = flopsOf("[data]\nkind = \"grammar\"\n", R"({ type = "embedding", width = 6 },
    { type = "attention", heads = 2 }, { type = "dense" })",
                                 {7});
  const double projections = 8 * 7 * 36, pairs = 7 * 6 * 8, output = 2 * 7 * 60;
  CHECK(flops.hardware == 96 * (3 * projections + 7 * pairs + 3 * output));
  CHECK(flops.model == 96 * (3 * projections + 6 * pairs + 3 * output));
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
