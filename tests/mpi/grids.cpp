#include "pmpi.hpp"
#include "small_run.hpp"
#include "support/catch.hpp"
#include "support/link_scope.hpp"

namespace partita::test::grids {

/// The same deck must give the same bits on 1, 2 and 4 ranks, with any timing and any buffering.

namespace {

const Overrides two_stages{"strategy/stages=2"}, three_stages{"strategy/stages=3"},
    four_stages{"strategy/stages=4"};

/// Group sizes up to `most` that this job can form.
std::vector<int> rankCounts(int most) {
  std::vector<int> counts;
  for (const int ranks : {1, 2, 4}) {
    if (ranks <= most && everyone().size() % ranks == 0) counts.push_back(ranks);
  }
  return counts;
}

void checkSameOnAllGrids(const Overrides& deck, int most_ranks) {
  const std::string expected = trainedHash(1, deck);
  for (const int ranks : rankCounts(most_ranks)) {
    INFO(ranks << " ranks");
    CHECK(trainedHash(ranks, deck) == expected);
  }
}

/// Checks that buffering, and where MPI finds the data, only affect what waits for what.
void checkBufferingDoesNotMatter(const Overrides& deck, int most_ranks) {
  const std::string expected = trainedHash(1, deck);
  const std::vector<Overrides> variants{
      {"strategy/queue=1"},         {"strategy/queue=8"},
      {"data/prefetch=0"},          {"data/prefetch=3"},
      {"run/device_aware_mpi=off"}, {"strategy/queue=1", "data/prefetch=0", "run/evaluate_every=1"}};
  for (const Overrides& variant : variants) {
    for (const int ranks : rankCounts(most_ranks)) {
      INFO(ranks << " ranks, " << variant.front());
      CHECK(trainedHash(ranks, deck + variant) == expected);
    }
  }
}

void checkTimingDoesNotMatter(const Overrides& deck, int most_ranks, int seeds) {
  const std::string expected = trainedHash(1, deck);
  for (const int ranks : rankCounts(most_ranks)) {
    for (int seed = 0; ranks > 1 && seed < seeds; ++seed) {
      const MpiDelays delays(static_cast<std::uint64_t>(seed));
      const LinkScope links({0.0, 0.0, 1e-4, seed});
      INFO(ranks << " ranks, delays of seed " << seed);
      CHECK(trainedHash(ranks, deck) == expected);
    }
  }
}

} // namespace

TEST_CASE("Parameters change with the seed and repeat with the deck", "[grid]") {
  const std::string once = trainedHash(1, four_stages);
  CHECK(once == trainedHash(1, four_stages));
  CHECK(once != trainedHash(1, four_stages + Overrides{"run/seed=4"}));
  CHECK(once != trainedHash(1, two_stages));
}

TEST_CASE("Relay gives the same bits on every grid", "[grid]") {
  const Overrides relay{"strategy/input=relay"};
  checkSameOnAllGrids(relay + two_stages, 2);
  checkSameOnAllGrids(relay + three_stages, 2);
  checkSameOnAllGrids(relay + four_stages, 4);
  checkSameOnAllGrids(relay + four_stages + Overrides{"strategy/loss=mse", "strategy/labels=uniform"}, 4);
  checkSameOnAllGrids(relay + four_stages + Overrides{"strategy/reencode=on"}, 4);
  checkSameOnAllGrids(relay + four_stages + Overrides{"strategy/match=before"}, 4);
  checkSameOnAllGrids(relay + four_stages + Overrides{"optimiser/clip_norm=0.5", "run/steps=20"}, 4);
}

TEST_CASE("Images are augmented the same way on every grid", "[grid]") {
  const Overrides augmented{"data/crop=3", "data/flip=true"};
  const Overrides relay{"strategy/input=relay"},
      frozen{"strategy/input=frozen", "strategy/recovery_epochs=1"};
  checkSameOnAllGrids(augmented + relay + four_stages, 4);
  checkSameOnAllGrids(augmented + frozen + four_stages, 4);
  checkSameOnAllGrids(augmented + Overrides{"strategy/input=free"} + two_stages, 2);
  checkSameOnAllGrids(
      augmented + Overrides{"strategy/kind=pipeline", "strategy/microbatches=3"} + four_stages, 4);
  checkBufferingDoesNotMatter(augmented + relay, 4);
  const std::string plain = trainedHash(1, relay + two_stages);
  CHECK(plain != trainedHash(1, relay + two_stages + Overrides{"data/crop=1"}));
  CHECK(plain != trainedHash(1, relay + two_stages + Overrides{"data/flip=true"}));
}

TEST_CASE("Relay does not depend on queues and read-ahead", "[grid]") {
  checkBufferingDoesNotMatter({"strategy/input=relay"}, 4);
}

TEST_CASE("Relay does not depend on timing", "[grid][sweep]") {
  checkTimingDoesNotMatter({"strategy/input=relay", "run/epochs=1"}, 4, 20);
  checkTimingDoesNotMatter({"strategy/input=relay", "strategy/queue=1", "run/epochs=1"}, 4, 5);
}

TEST_CASE("Joint steps and copies in heads do not depend on timing", "[grid][sweep]") {
  const Overrides relay{"strategy/input=relay", "strategy/labels=learned", "run/epochs=1"},
      joint_steps{"strategy/joint_every=3", "strategy/reconstruct=0.1"},
      copies{"strategy/lookahead=2", "strategy/refresh=5", "strategy/joint_every=7"};
  checkTimingDoesNotMatter(relay + joint_steps + four_stages, 4, 5);
  checkTimingDoesNotMatter(relay + copies + four_stages, 4, 10);
  checkBufferingDoesNotMatter(relay + copies + four_stages, 4);
}

TEST_CASE("Frozen gives the same bits on every grid", "[grid]") {
  const Overrides frozen{"strategy/input=frozen"};
  checkSameOnAllGrids(frozen + two_stages, 2);
  checkSameOnAllGrids(frozen + three_stages, 2);
  checkSameOnAllGrids(frozen + four_stages, 4);
  checkSameOnAllGrids(frozen + four_stages + Overrides{"strategy/reencode=on"}, 4);
  checkSameOnAllGrids(frozen + four_stages + Overrides{"run/steps=7"}, 4);
  checkTimingDoesNotMatter(frozen + Overrides{"data/samples=638"}, 4, 5);
}

TEST_CASE("Frozen does not depend on queues and read-ahead", "[grid][sweep]") {
  // 638 samples leave a last segment that no batch of the first epoch contains.
  checkBufferingDoesNotMatter({"strategy/input=frozen", "data/samples=638", "run/epochs=3"}, 4);
}

TEST_CASE("Free gives the same bits on every grid", "[grid]") {
  const Overrides free{"strategy/input=free"};
  checkSameOnAllGrids(free + two_stages, 2);
  checkSameOnAllGrids(free + four_stages, 4);
  checkSameOnAllGrids(free + four_stages + Overrides{"strategy/mixture=off"}, 4);
  checkSameOnAllGrids(free + four_stages + Overrides{"strategy/loss=mse", "strategy/labels=uniform"}, 4);
}

TEST_CASE("Fixed labels train the same, however the deck names them", "[grid]") {
  const Overrides mse{"strategy/loss=mse"};
  CHECK(trainedHash(1, mse + Overrides{"strategy/label_init=uniform"}) ==
        trainedHash(1, mse + Overrides{"strategy/labels=uniform"}));
}

TEST_CASE("Recovery gives the same bits on every grid", "[grid]") {
  const Overrides recovery{"run/epochs=1", "strategy/recovery_epochs=1"};
  for (const char* clip : {"optimiser/clip_norm=0", "optimiser/clip_norm=0.3"}) {
    for (const char* reencode : {"strategy/reencode=off", "strategy/reencode=on"}) {
      INFO(clip << ", " << reencode);
      checkSameOnAllGrids(recovery + Overrides{clip, reencode}, 4);
    }
  }
  checkSameOnAllGrids(recovery + three_stages, 2);
  CHECK(trainedHash(1, recovery) != trainedHash(1, {"run/epochs=1"}));
  checkSameOnAllGrids(recovery + Overrides{"run/device_aware_mpi=off"}, 4);
  checkTimingDoesNotMatter(recovery, 4, 5);
}

namespace {

/// Each stage of the joined network decodes the same, on any number of ranks.
void checkSameEvaluation(const Overrides& deck) {
  const Evaluation expected = SmallRun(groupOf(1), smallDeck(deck)).train().evaluate();
  CHECK(expected.accuracy.size() == 4);
  for (const int ranks : rankCounts(4)) {
    const Evaluation found = SmallRun(groupOf(ranks), smallDeck(deck)).train().evaluate();
    INFO(ranks << " ranks");
    CHECK(found.accuracy == expected.accuracy);
    CHECK(found.loss == expected.loss);
    CHECK(found.alone == expected.alone);
  }
}

} // namespace

TEST_CASE("The joined network decodes the same on every grid", "[grid]") {
  const Overrides fixed{"strategy/labels=orthogonal"};
  checkSameEvaluation({});
  checkSameEvaluation({"strategy/exits=sum"});
  checkSameEvaluation({"strategy/exits=fitted", "data/validation=0.2"});
  checkSameEvaluation(fixed + Overrides{"strategy/exits=sum"});
  checkSameEvaluation(fixed);

  // One stage with the same parameters: the network without cuts.
  SmallRun alone(groupOf(1), smallDeck(fixed));
  const Evaluation expected = alone.train().evaluate();
  SmallRun whole(groupOf(1), smallDeck({"strategy/stages=1"}));
  const std::vector<Real> parameters = alone.ownParameters();
  const Vector& target = whole.stages.front()->stage.parameters();
  REQUIRE(target.size() == parameters.size());
  Kokkos::deep_copy(target, Kokkos::View<const Real*, HostSpace>(parameters.data(), parameters.size()));
  const Evaluation uncut = whole.evaluate();
  CHECK(uncut.accuracy.back() == expected.accuracy.back());
  CHECK(uncut.loss.back() == expected.loss.back());
}

TEST_CASE("What a stage predicts by itself does not depend on exits", "[grid]") {
  const Evaluation single = SmallRun(groupOf(1), smallDeck()).train().evaluate();
  CHECK(single.alone.empty());
  const Evaluation added = SmallRun(groupOf(1), smallDeck({"strategy/exits=sum"})).train().evaluate();
  CHECK(added.alone == single.accuracy);
  CHECK(added.accuracy != single.accuracy); // each is that of the sum up to the stage
}

TEST_CASE("Weights of exits are fitted to the samples of all replicas", "[grid]") {
  if (everyone().size() < 2) return;
  const Overrides images{"strategy/exits=fitted", "data/validation=0.2", "strategy/stages=3",
                         "strategy/cuts=flops"},
      tokens =
          images +
          Overrides{
              "data/kind=grammar", "data/classes=0", "data/sequence=12",
              "network/layers=[{type='embedding',width=24},{type='dense',units=24,repeat=2},{type='dense'}]"};
  for (const Overrides& deck : {images, tokens}) {
    const auto fitted = [&](int replicas) {
      SmallRun run(groupOf(replicas),
                   smallDeck(deck + Overrides{"strategy/replicas=" + std::to_string(replicas)}));
      run.train();
      std::vector<double> weights;
      for (const auto& local : run.stages) weights.push_back(*local->exit_weight);
      return weights;
    };
    const std::vector<double> one = fitted(1), two = fitted(2); // learn the same up to rounding
    REQUIRE(one.size() == two.size());
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(two[i] == Approx(one[i]).margin(1e-3));
  }
}

} // namespace partita::test::grids
