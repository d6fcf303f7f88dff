#include "partita/config/deck.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/train/forecast.hpp"

#include "support/catch.hpp"
#include "support/source_directory.hpp"

namespace partita::test::train_forecast {

namespace {

RunConfig deckWith(std::vector<std::string> overrides) {
  overrides.push_back("run/cluster=" + sourceDirectory() + "/clusters/abci.toml");
  return effective(parseDeck(R"(
[network]
layers = [{ type = "dense", units = 8, repeat = 3 }, { type = "dense" }]
[training]
batch = 16
[strategy]
stages = 2
cuts = [2]
)",
                             "deck", overrides));
}

bool isPredicted(const std::vector<std::string>& overrides) {
  const RunConfig config = deckWith(overrides);
  DataSets sets;
  sets.shape = {16};
  sets.classes = 4;
  sets.train.features = Samples(16, std::vector<std::uint8_t>(512 * 16));
  sets.train.labels = std::vector<std::int32_t>(512, 0);
  const Partition partition = planPartition(config, planNetwork(config.network, {16}, 4), 4);
  return predictedCost(config, sets, partition, planGrid(config.strategy, partition, 2)).has_value();
}

} // namespace

TEST_CASE("Runs with steps that the cost model does not have are not predicted", "[train]") {
  CHECK(isPredicted({"strategy/kind=sil"}));
  CHECK_FALSE(isPredicted({"strategy/kind=sil", "strategy/recovery_epochs=1"}));
  CHECK_FALSE(isPredicted({"strategy/kind=sil", "strategy/joint_every=10"}));
  CHECK(isPredicted({"strategy/kind=pipeline", "strategy/joint_every=10"})); // where it has no effect
}

TEST_CASE("Only whole runs are measured where steps differ in the course of a run", "[train]") {
  const auto measured = [](const std::vector<std::string>& overrides, std::int64_t first_step) {
    const RunConfig config = deckWith(overrides);
    return hasMeanSteps(config.strategy, planRunLength(config, 512), first_step);
  };
  const std::string local = "strategy/kind=local-sgd", sil = "strategy/kind=sil";
  CHECK(measured({"strategy/kind=joint"}, 5));
  CHECK(measured({sil, "strategy/input=relay"}, 5));
  CHECK(measured({sil, "strategy/input=frozen"}, 0));
  CHECK_FALSE(measured({sil, "strategy/input=frozen"}, 5));
  CHECK(measured({local}, 5));
  CHECK(measured({local, "strategy/warmup_steps=3"}, 0));
  CHECK_FALSE(measured({local, "strategy/warmup_steps=3"}, 5));
}

} // namespace partita::test::train_forecast
