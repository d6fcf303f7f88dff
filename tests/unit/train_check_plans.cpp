#include "partita/config/deck.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/train/check_plans.hpp"

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::train_check_plans {

namespace {

/// 512 samples of 16 values, a pipeline of two stages with batch norm in the first.
RunConfig deckWith(const std::vector<std::string>& overrides) {
  return parseDeck(R"(
[data]
classes = 4
[network]
layers = [{ type = "dense", units = 8 }, { type = "batch-norm" }, { type = "dense" }]
[training]
batch = 16
[strategy]
kind = "pipeline"
stages = 2
cuts = [2]
schedule = "1f1b"
)",
                   "deck", overrides);
}

/// The error message for the deck on `ranks` ranks; empty if there is none.
std::string complaint(int ranks, const std::vector<std::string>& overrides) {
  const RunConfig config = deckWith(overrides);
  DataSets sets;
  sets.shape = {16};
  sets.train.features = Samples(16, std::vector<std::uint8_t>(512 * 16));
  std::vector<std::int32_t> labels(512, 0);
  labels.back() = 3;
  sets.train.labels = labels;
  const Partition partition = planPartition(config, planNetwork(config.network, {16}, 4), 4);
  return messageOf(
      [&] { checkTraining(config, sets, partition, planGrid(config.strategy, partition, ranks)); });
}

const std::string batch_norm = "network/layers[1]: batch-norm ";
const std::string over_replicas =
    R"(network/layers=[{ type = "dense", units = 8 }, { type = "batch-norm", replicas = true }, { type = "dense" }])";

} // namespace

TEST_CASE("The largest message may be one of parts", "[train][parts]") {
  const RunConfig config =
      deckWith({"strategy/kind=joint", "strategy/parts=2", "strategy/split=filter",
                R"(network/layers=[{ type = "dense", units = 8, repeat = 2 }, { type = "dense" }])"});
  const Partition partition = planPartition(config, planNetwork(config.network, {16}, 4), 4);
  // Half of the eight outputs of a layer, for 16 samples.
  CHECK(largestMessage(config, partition, planGrid(config.strategy, partition, 2)) == 16 * 4);
}

TEST_CASE("Batch norm of single values is refused", "[train]") {
  const std::string single = batch_norm + "would have a single value per channel at a time; use a larger "
                                          "training/batch, or fewer replicas or microbatches";
  CHECK(complaint(2, {"strategy/microbatches=8"}).empty());
  CHECK(complaint(2, {"strategy/microbatches=16"}) == single);
  CHECK(complaint(2, {"strategy/microbatches=1000"}) == single);
  CHECK(complaint(4, {"strategy/microbatches=8"}) == single);
  CHECK(complaint(4, {"strategy/microbatches=8", over_replicas}).empty()); // one per replica
  CHECK(complaint(1, {"strategy/kind=joint", "strategy/microbatches=16"}) == single);
}

TEST_CASE("Batch norm over replicas needs the same order on all of them", "[train]") {
  const std::string needs = batch_norm + "over all replicas needs ";
  const std::string order = needs + "a fixed order of the microbatches; use strategy/schedule = \"1f1b\", "
                                    "\"1f1b-eager\" or \"gpipe\"";
  const std::vector<std::string> deck{over_replicas, "strategy/microbatches=4"};
  CHECK(complaint(4, deck).empty());
  CHECK(complaint(4, {over_replicas, "strategy/schedule=message-driven"}).empty()); // one microbatch
  CHECK(complaint(4, {deck[0], deck[1], "strategy/schedule=message-driven"}) == order);
  CHECK(complaint(2, {deck[0], deck[1], "strategy/schedule=message-driven"}).empty()); // one replica
  CHECK(complaint(4, {deck[0], "strategy/microbatches=3", "training/batch=5"}) ==
        needs + "the same number of microbatches in each replica; use a training/batch that the 2 replicas "
                "can share evenly");
  CHECK(complaint(4, {deck[0], "strategy/microbatches=2", "training/batch=5"}).empty());
}

TEST_CASE("A message that MPI cannot count is refused", "[train]") {
  const std::string wide = R"(network/layers=[{ type = "dense", units = 16000000 }, { type = "dense" }])";
  CHECK(complaint(2, {wide, "strategy/cuts=[1]", "training/batch=256"}) ==
        "training/batch: a message would have 2^31 values or more; use smaller batches, more "
        "strategy/microbatches or smaller layers");
  CHECK(complaint(2, {wide, "strategy/cuts=[1]", "training/batch=256", "strategy/microbatches=2"}).empty());
}

TEST_CASE("Only images can be augmented", "[train]") {
  const std::string needs = ": needs images of channels x rows x columns, but samples have the shape ";
  CHECK(complaint(2, {"data/crop=1"}) == "data/crop" + needs + "16");
  CHECK(complaint(2, {"data/flip=true"}) == "data/flip" + needs + "16");
}

} // namespace partita::test::train_check_plans
