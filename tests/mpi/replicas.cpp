#include "partita/data/order.hpp"

#include <cmath>

#include "pmpi.hpp"
#include "small_run.hpp"
#include "support/catch.hpp"
#include "support/link_scope.hpp"

namespace partita::test::replicas {

/// Replicas share each batch and must stay copies of one another. Their gradients are sums of parts, so the
/// rounding differs from that of one replica.

namespace {

/// Parameters of the whole network, in layer order, on every rank.
std::vector<Real> gathered(const SmallRun& run) {
  std::vector<Real> all;
  const Communicator& chain = run.grid.chain();
  for (int group = 0; group < chain.size(); ++group) {
    std::vector<Real> part = run.ownParameters();
    auto size = static_cast<std::int64_t>(part.size());
    MPI_Bcast(&size, 1, MPI_INT64_T, group, chain.get());
    part.resize(static_cast<std::size_t>(size));
    MPI_Bcast(part.data(), mpiCount(size), mpiType<Real>(), group, chain.get());
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<Real> trained(int stages, int replicas, const Overrides& deck) {
  Overrides overrides = deck;
  overrides.push_back("strategy/stages=" + std::to_string(stages));
  overrides.push_back("strategy/replicas=" + std::to_string(replicas));
  SmallRun run(groupOf(stages * replicas), smallDeck(overrides));
  return gathered(run.train());
}

double relativeDifference(const std::vector<Real>& a, const std::vector<Real>& b) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2.0);
    norm += std::pow(static_cast<double>(a[i]), 2.0);
  }
  return std::sqrt(difference / norm);
}

/// Rounding errors of 20 to 30 steps are a tenth of this, or much less in double.
constexpr double rounding = sizeof(Real) == sizeof(double) ? 1e-12 : 1e-6;

/// Compares one replica with two and four, for as many stages as there are ranks for.
void checkAgreement(const Overrides& deck, double bound = rounding) {
  for (const int stages : {1, 2}) {
    std::vector<Real> one;
    for (const int replicas : {2, 4}) {
      if (everyone().size() % (replicas * stages) != 0) continue;
      if (one.empty()) one = trained(stages, 1, deck);
      const std::vector<Real> several = trained(stages, replicas, deck);
      REQUIRE(one.size() == several.size());
      INFO(stages << " stages, " << replicas << " replicas, " << deck.front() << ", " << deck.back());
      CHECK(relativeDifference(one, several) < bound);
    }
  }
}

} // namespace

TEST_CASE("Replicas are bitwise copies of one another", "[replicas]") {
  for (const char* input :
       {"strategy/input=relay", "strategy/input=frozen", "strategy/input=free", "strategy/kind=pipeline"}) {
    for (const int stages : {1, 2}) {
      const int replicas = everyone().size() / stages;
      if (replicas == 0) continue;
      SmallRun run(everyone(), smallDeck({input, "strategy/stages=" + std::to_string(stages),
                                          "strategy/replicas=" + std::to_string(replicas), "data/samples=630",
                                          "strategy/bucket_kib=1", "strategy/recovery_epochs=1",
                                          "strategy/microbatches=3"}));
      std::vector<Real> own = run.train().ownParameters(), first = own;
      MPI_Bcast(first.data(), mpiCount(static_cast<std::int64_t>(first.size())), mpiType<Real>(), 0,
                run.grid.peers().get());
      INFO(input << ", " << stages << " stages x " << replicas << " replicas");
      CHECK(own == first);
    }
  }
}

TEST_CASE("One replica and several agree", "[replicas]") {
  // Adam divides a gradient by its own size; if a gradient consists of rounding errors alone, as for an
  // inactive unit, only epsilon keeps it from causing a full step.
  const Overrides sgd{"optimiser/kind=sgd", "optimiser/learning_rate=0.05"},
      adam{"optimiser/kind=adam", "optimiser/epsilon=1e-6"};
  for (const Overrides& optimiser : {sgd, adam}) {
    for (const char* input : {"strategy/input=relay", "strategy/input=frozen", "strategy/input=free"}) {
      Overrides deck = optimiser;
      deck.push_back(input);
      checkAgreement(deck);
    }
  }
  checkAgreement({"run/epochs=1", "strategy/recovery_epochs=1", "optimiser/kind=sgd"});
  for (const char* schedule : {"strategy/schedule=message-driven", "strategy/schedule=gpipe"}) {
    for (const Overrides& optimiser : {sgd, adam}) {
      Overrides deck = optimiser;
      for (const char* more : {"strategy/kind=pipeline", "strategy/microbatches=3", "run/steps=20", schedule})
        deck.emplace_back(more);
      checkAgreement(deck);
    }
  }
}

TEST_CASE("Updates that wait for the next forward pass change no bit", "[replicas][sweep]") {
  const std::string pipeline = "strategy/kind=pipeline", sil = "strategy/kind=sil",
                    norms = R"(network/layers=[{ type = "dense", units = 20 },
    { type = "batch-norm", activation = "relu", replicas = true }, { type = "dense" }])";
  const std::vector<Overrides> variants{{pipeline, "optimiser/kind=sgd"},
                                        {pipeline, "optimiser/kind=adamw", "optimiser/weight_decay=0.01"},
                                        {pipeline, "strategy/microbatches=3", "run/device_aware_mpi=off"},
                                        {pipeline, norms},
                                        {sil, "run/epochs=1", "strategy/recovery_epochs=1"},
                                        {sil, "strategy/input=frozen", "run/evaluate_every=1"},
                                        {sil, "strategy/input=free"}};
  const int ranks = everyone().size();
  for (const Overrides& variant : variants) {
    for (const int stages : {1, 2}) {
      if (stages > ranks) continue;
      const auto hashOf = [&](const char* log_every) {
        Overrides deck = variant;
        for (const char* more :
             {log_every, "strategy/bucket_kib=1", "strategy/replicas=0", "strategy/cuts=flops"})
          deck.emplace_back(more);
        deck.push_back("strategy/stages=" + std::to_string(stages));
        return trainedHash(ranks, deck);
      };
      INFO(stages << " stages, " << variant.front() << ", " << variant.back());
      const std::string at_once = hashOf("run/log_every=1");
      CHECK(hashOf("run/log_every=1000") == at_once);
      const LinkScope slow({0.0002, 1e8, 0.0, 1});
      const MpiDelays delays(static_cast<std::uint64_t>(stages));
      CHECK(hashOf("run/log_every=1000") == at_once);
    }
  }
}

TEST_CASE("Stages on one rank add up their gradients at the same time", "[replicas]") {
  if (everyone().size() < 2) return;
  const std::string layers =
      R"(network/layers=[{ type = "dense", units = 128, activation = "tanh", repeat = 6 }, { type = "dense" }])";
  const auto hashOf = [&](const char* stages, const char* log_every, const Overrides& more) {
    const Overrides deck{layers,
                         stages,
                         log_every,
                         "strategy/replicas=2",
                         "strategy/bucket_kib=32",
                         "run/steps=12",
                         "optimiser/kind=sgd"};
    return trainedHash(2, deck + more);
  };
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const MpiDelays delays(seed);
    const Overrides pipeline{"strategy/kind=pipeline"}, free{"strategy/kind=sil", "strategy/input=free"};
    CHECK(hashOf("strategy/stages=2", "run/log_every=1000", pipeline) ==
          hashOf("strategy/stages=1", "run/log_every=1000", pipeline));
    CHECK(hashOf("strategy/stages=2", "run/log_every=1000", free) ==
          hashOf("strategy/stages=2", "run/log_every=1", free));
  }
}

TEST_CASE("A batch norm over all replicas is that of one", "[replicas]") {
  const std::string layers = R"(network/layers=[{ type = "conv2d", channels = 4, kernel = 3 },
    { type = "batch-norm", activation = "relu", replicas = true }, { type = "max-pool", kernel = 2 },
    { type = "dense", units = 16 }, { type = "batch-norm", activation = "tanh", replicas = true },
    { type = "dense" }])";
  checkAgreement({"strategy/kind=pipeline", "optimiser/kind=sgd", layers}, 1e-4);
  checkAgreement({"strategy/kind=sil", "strategy/cuts=flops", "optimiser/kind=sgd", layers}, 1e-4);
}

TEST_CASE("A batch norm over all replicas sums each microbatch, in every fixed order", "[replicas]") {
  const auto trainedBy = [](int stages, const std::string& schedule, const std::string& replicas) {
    const std::string layers =
        "network/layers=[{type='dense',units=20},{type='batch-norm',activation='relu',replicas=" + replicas +
        "},{type='dense',units=16},{type='batch-norm',activation='tanh',replicas=" + replicas +
        "},{type='dense'}]";
    return trained(stages, 2,
                   {"strategy/kind=pipeline", "strategy/microbatches=3", "strategy/schedule=" + schedule,
                    "run/steps=10", layers});
  };
  for (const int stages : {1, 2}) {
    if (everyone().size() % (2 * stages) != 0) continue;
    const std::vector<Real> expected = trainedBy(stages, "gpipe", "true");
    CHECK(std::isfinite(expected.front()));
    for (const char* schedule : {"1f1b", "1f1b-eager"})
      CHECK(trainedBy(stages, schedule, "true") == expected);
    const LinkScope slow({0.0, 0.0, 0.001, 1}); // any replica may be late
    CHECK(trainedBy(stages, "1f1b", "true") == expected);
    CHECK(trainedBy(stages, "1f1b", "false") != expected);
  }
}

TEST_CASE("Statistics are those of all replicas", "[replicas]") {
  for (const char* replicas : {"true", "false"}) {
    const std::string layers = std::string(R"(network/layers=[{ type = "dense", units = 20 },
      { type = "batch-norm", activation = "relu", replicas = )") +
                               replicas + " }, { type = \"dense\" }]";
    SmallRun run(everyone(), smallDeck({"strategy/kind=joint", layers, "strategy/replicas=0"}));
    run.train();
    const Vector& statistics = run.stages.front()->stage.statistics();
    const auto own = Kokkos::create_mirror_view_and_copy(HostSpace(), statistics);
    std::vector<Real> first(own.data(), own.data() + own.size());
    CHECK(first.size() == 40);
    CHECK(std::abs(first[0]) > 0); // the mean has moved from its initial value
    MPI_Bcast(first.data(), mpiCount(static_cast<std::int64_t>(first.size())), mpiType<Real>(), 0,
              run.grid.peers().get());
    CHECK(first == std::vector<Real>(own.data(), own.data() + own.size()));
  }
}

TEST_CASE("The number of replicas does not change the batches", "[replicas]") {
  constexpr std::size_t samples = 611;
  constexpr std::int64_t batch = 42, batches = 3 * (611 / 42);
  const Communicator& world = everyone();
  const auto mine = trainingOrder(samples, 5, batch, world.rank(), world.size(), 0);
  const auto whole = trainingOrder(samples, 5, batch, 0, 1, 0);
  BatchRows own, all;
  for (std::int64_t t = 0; t < batches; ++t) {
    mine(t, own);
    whole(t, all);
    const std::vector<std::uint32_t>&rows = own.rows, &expected = all.rows;
    CHECK(own.epoch == all.epoch);
    std::vector<std::uint32_t> joined(expected.size());
    std::vector<int> counts(static_cast<std::size_t>(world.size())), begins = counts;
    for (int rank = 0; rank < world.size(); ++rank) {
      const IndexRange slice = shareOf(batch, rank, world.size());
      begins[static_cast<std::size_t>(rank)] = static_cast<int>(slice.begin);
      counts[static_cast<std::size_t>(rank)] = static_cast<int>(slice.end - slice.begin);
    }
    REQUIRE(static_cast<int>(rows.size()) == counts[static_cast<std::size_t>(world.rank())]);
    MPI_Allgatherv(rows.data(), static_cast<int>(rows.size()), MPI_UINT32_T, joined.data(), counts.data(),
                   begins.data(), MPI_UINT32_T, world.get());
    CHECK(joined == expected);
  }
}

TEST_CASE("Gradients are summed over replicas, and between them only", "[replicas]") {
  const int replicas = everyone().size();
  SmallRun run(everyone(), smallDeck({"strategy/stages=1", "strategy/replicas=" + std::to_string(replicas),
                                      "run/steps=5", "strategy/bucket_kib=8"}));
  const MpiRecording recording;
  run.train();
  const auto parameters = static_cast<std::int64_t>(run.ownParameters().size());
  const std::int64_t expected = replicas == 1 ? 0 : 5 * parameters * static_cast<std::int64_t>(sizeof(Real));
  // The single report, at the end, sums loss, hits and rows: three doubles that are not gradients.
  const std::int64_t report = replicas == 1 ? 0 : 3 * static_cast<std::int64_t>(sizeof(double));
  if (!run.grid.paths().nccl) CHECK(summedBytes(recording, run.grid.peers()) == expected + report);
  CHECK(run.grid.traffic.between_replicas == expected);
}

} // namespace partita::test::replicas
