#include "partita/comm/gradient_reducer.hpp"
#include "partita/strategy/stage_updater.hpp"

#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include "small_run.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/link_scope.hpp"

namespace partita::test::mixed {

/// 16-bit numbers across ranks: sums, messages, and steps that are taken by all ranks or by none.

namespace {

constexpr Precision halves[] = {Precision::bf16, Precision::fp16};

const char* const batch_norms = "network/layers=[{type='block',repeat=4,layers=[{type='dense',units=32},"
                                "{type='batch-norm',activation='relu'}]},{type='dense'}]";

std::vector<Real> stored(const TypedSpan& numbers) {
  const Vector values("partita::test::stored", static_cast<std::size_t>(numbers.size));
  convert(ExecSpace(), numbers, values);
  const auto host = Kokkos::create_mirror_view_and_copy(HostSpace(), values);
  return {host.data(), host.data() + host.size()};
}

void fill(const TypedSpan& numbers, const std::vector<Real>& values) {
  const Vector device("partita::test::values", values.size());
  Kokkos::deep_copy(device, Kokkos::View<const Real*, HostSpace>(values.data(), values.size()));
  convert(ExecSpace(), device, numbers);
  fence(ExecSpace(), "partita::test::fill");
}

/// Everything that a step may change on this rank.
struct Snapshot {
  explicit Snapshot(const std::vector<std::unique_ptr<StageUpdater>>& updaters) {
    for (const auto& updater : updaters) {
      const Stage& stage = updater->local().stage;
      values.push_back(stored(stage.trained().parameters));
      values.push_back(stage.masters().values(ExecSpace()));
      values.push_back(StoredVector(stage.statistics()).values(ExecSpace()));
      for (const Optimiser::State& state : updater->optimiser().state())
        values.push_back(state.values.values(ExecSpace()));
      steps.push_back(updater->optimiser().steps());
    }
  }
  bool operator==(const Snapshot& other) const { return values == other.values && steps == other.steps; }

  std::vector<std::vector<Real>> values;
  std::vector<std::int64_t> steps;
};

/// The stages of a run with updaters; batches and gradients are made up.
class MadeUp {
 public:
  MadeUp(int stages, int replicas, const Overrides& deck)
      : _run(everyone(), smallDeck(with(deck, stages, replicas))) {
    for (const auto& local : _run.stages)
      updaters.push_back(std::make_unique<StageUpdater>(
          _run.config, *local, summedGradients(_run.config, *local, _run.grid), UpdateSchedule{10000, 15}));
  }

  /// Takes a step with gradients of size `size`; `bad`: one number of this rank's first stage is
  /// infinite. Returns whether the step was skipped.
  bool step(double size, bool bad) {
    const ExecSpace space;
    std::vector<StageUpdater*> all;
    for (const auto& updater : updaters) all.push_back(updater.get());
    const std::int64_t taken = all.front()->optimiser().steps();
    takeStep(space, all, {_run.grid.world()}, [&] {
      for (StageUpdater* updater : all) {
        forward(updater->local());
        const TypedSpan gradients = updater->local().stage.trained().gradients;
        std::vector<Real> values(static_cast<std::size_t>(gradients.size));
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = static_cast<Real>(size * std::cos(static_cast<double>(i + 7 * ++_count)));
        if (bad && updater == all.front()) values[values.size() / 3] = std::numeric_limits<Real>::infinity();
        fill(gradients, values);
        updater->gradientReady(space)(0, gradients.size);
      }
    });
    finishUpdates(space, all); // until then only a device may know whether the step was taken
    return all.front()->optimiser().steps() == taken;
  }
  double scale() const { return updaters.front()->lossScale().value; }
  /// Samples in the score of the last stage.
  double scored() const { return updaters.back()->local().score.peek(ExecSpace()).rows; }

  std::vector<std::unique_ptr<StageUpdater>> updaters;

 private:
  /// Batch norms have already seen the batch when its gradient overflows.
  void forward(LocalStage& local) {
    const TypedRows memory("partita::test::in", local.stage.inputPrecision(), 4, local.stage.inputs());
    const TypedMatrix in = memory.top(4);
    std::vector<Real> values(static_cast<std::size_t>(in.size()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<Real>(std::sin(static_cast<double>(i + 11 * ++_count)));
    fill(in.values(), values);
    const TypedMatrix out = local.stage.forward(ExecSpace(), Pass(), in, local.tape);
    if (local.stage.plan().last())
      local.loss->evaluate(ExecSpace(), out, {Labels("partita::test::labels", 4), Matrix()}, Real(1),
                           Matrix(), local.score);
  }
  static Overrides with(Overrides deck, int stages, int replicas) {
    deck.push_back("strategy/stages=" + std::to_string(stages));
    deck.push_back("strategy/replicas=" + std::to_string(replicas));
    deck.push_back("optimiser/offload_directory=" + std::filesystem::temp_directory_path().string());
    return deck;
  }

  SmallRun _run;
  std::uint64_t _count = 0;
};

} // namespace

TEST_CASE("Sums of 16 bits are those of rounded numbers, odd counts too", "[mixed]") {
  const int ranks = everyone().size();
  for (const Precision wire : {Precision::single, Precision::bf16, Precision::fp16}) {
    for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
      for (const MessagePath path : usablePaths(&MessagePaths::reductions)) {
        constexpr std::int64_t size = 1001;
        const Kokkos::View<Real*, MemSpace> memory("partita::test::memory", size);
        const TypedSpan gradients(precision, memory.data(), size);
        std::int64_t bytes = 0;
        GradientReducer reducer(everyone(), gradients, 333, path, bytes, wire);
        reducer.setScale(Real(4), Real(0.25));
        for (int step = 0; step < 2; ++step) {
          std::vector<Real> own(size), expected(size);
          for (std::size_t i = 0; i < own.size(); ++i) { // small integers: no sum is rounded
            own[i] = static_cast<Real>(static_cast<int>(i % 31) - 15 + everyone().rank());
            expected[i] =
                static_cast<Real>(ranks * (static_cast<int>(i % 31) - 15) + ranks * (ranks - 1) / 2);
          }
          fill(gradients, own);
          reducer.ready(ExecSpace(), 667, size);
          reducer.ready(ExecSpace(), 333, 667);
          reducer.ready(ExecSpace(), 0, 333);
          reducer.arrive(ExecSpace(), 500, size);
          const std::vector<Real> part = stored(gradients);
          CHECK(std::vector<Real>(part.begin() + 667, part.end()) ==
                std::vector<Real>(expected.begin() + 667, expected.end()));
          reducer.finish(ExecSpace());
          CHECK(stored(gradients) == expected);
        }
        CHECK(bytes == (ranks == 1 ? 0 : 2 * size * bytesOf(wire)));
      }
    }
  }
}

TEST_CASE("Messages arrive as numbers of the type that the receiver stores, odd counts too", "[mixed]") {
  const Communicator& world = everyone();
  const ExecSpace space;
  constexpr std::int64_t most_rows = 5, columns = 7;
  const int next = (world.rank() + 1) % world.size(),
            before = (world.rank() + world.size() - 1) % world.size();
  constexpr Precision all[] = {Precision::single, Precision::bf16, Precision::fp16};
  for (const Precision wire : all) {
    for (const Precision stored_as : all) {
      for (const MessagePath path : usablePaths(&MessagePaths::messages)) {
        std::int64_t bytes = 0;
        const Channel onward{world, next, Tag::relay, "numbers", path, wire, stored_as},
            from{world, before, Tag::relay, "numbers", path, wire, stored_as};
        Sender sender(onward, most_rows, columns, 2, bytes);
        Receiver receiver(from, most_rows, columns, 2, 3);
        for (const std::int64_t rows : {3, 5, 1}) {
          const TypedRows sent("partita::test::sent", stored_as, rows, columns);
          std::vector<Real> values(static_cast<std::size_t>(rows * columns));
          for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<Real>(std::sin(static_cast<double>(i)));
          fill(sent.top(rows).values(), values);
          sender.send(space, sent.top(rows));
          const TypedMatrix found = receiver.next(space);
          fence(space, "partita::test::received");
          const Matrix expected = makeMatrix("partita::test::expected", rows, columns);
          copyValues(space, sent.top(rows), expected);
          roundTo(space, wire, expected); // on the way, and once more where it arrives
          roundTo(space, stored_as, expected);
          INFO(static_cast<int>(wire) << ", " << static_cast<int>(stored_as));
          CHECK(found.precision == stored_as);
          CHECK(found.rows == rows);
          CHECK(stored(found.values()) == stored(expected));
          CHECK((stored(found.values()) == values) ==
                (wire == Precision::single && stored_as == Precision::single));
        }
        sender.finish();
        CHECK(bytes == (3 + 5 + 1) * columns * bytesOf(wire));
      }
    }
  }
}

TEST_CASE("Values that are sent as they are stored are neither converted nor copied", "[mixed][memory]") {
  const Communicator& world = everyone();
  constexpr std::int64_t rows = 40, columns = 101, depth = 3, count = rows * columns;
  const auto bytesOfReceiver = [&](Precision wire, Precision stored_as) {
    const Allocations allocations;
    const Receiver receiver({world, 0, Tag::relay, "numbers", MessagePath::direct, wire, stored_as}, rows,
                            columns, depth, 0);
    return allocations.liveBytes();
  };
  for (const Precision half : halves) {
    const std::int64_t floats = bytesOfReceiver(Precision::single, Precision::single),
                       exact = bytesOfReceiver(half, half),
                       rounded = bytesOfReceiver(half, Precision::single);
    CHECK(std::abs(floats - count * bytesOf(Precision::single)) < 512); // one buffer: no message is expected
    CHECK(std::abs(exact - count * 2) < 512);
    CHECK(std::abs(rounded - count * (2 + bytesOf(Precision::single))) < 1024);
  }
}

TEST_CASE("An overflow anywhere leaves the step out everywhere, and halves the scale", "[mixed]") {
  const int ranks = everyone().size();
  for (const char* offload : {"none", "file"}) {
    for (const char* optimiser : {"adamw", "sgd"}) {
      for (const int replicas : {1, 2}) {
        if (ranks % replicas != 0) continue;
        const Overrides deck{"run/precision=fp16",
                             std::string("strategy/wire=") + (replicas > 1 ? "fp16" : "float"),
                             std::string("optimiser/offload=") + offload,
                             "optimiser/offload_bucket=700",
                             std::string("optimiser/kind=") + optimiser,
                             batch_norms};
        MadeUp run(std::min(4, ranks / replicas), replicas, deck);
        CHECK(run.scale() == 65536.0);
        for (int i = 0; i < 3; ++i) CHECK_FALSE(run.step(100.0, false));
        for (int bad_rank = 0; bad_rank < ranks; ++bad_rank) {
          const Snapshot before(run.updaters);
          const double scale = run.scale();
          CHECK(run.step(100.0, everyone().rank() == bad_rank));
          INFO(offload << ", " << optimiser << ", rank " << bad_rank);
          CHECK(Snapshot(run.updaters) == before);
          for (const auto& updater : run.updaters) CHECK(updater->lossScale().value == scale / 2);
          CHECK_FALSE(run.step(100.0, false)); // the next step is taken
          CHECK_FALSE(Snapshot(run.updaters) == before);
        }
        const double scale = run.scale();
        for (int i = 0; i < 198; ++i) run.step(100.0, false);
        CHECK(run.scale() == scale);
        run.step(100.0, false);
        for (const auto& updater : run.updaters) CHECK(updater->lossScale().value == 2 * scale);
      }
    }
  }
}

TEST_CASE("A finite loss counts, although its gradient overflows", "[mixed]") {
  MadeUp run(1, everyone().size(), {"run/precision=fp16"});
  CHECK_FALSE(run.step(100.0, false));
  CHECK(run.scored() == 4);
  CHECK(run.step(100.0, true));
  CHECK(run.scored() == 8);
}

TEST_CASE("Sums that overflow between replicas are noticed, too", "[mixed]") {
  if (everyone().size() != 2) return;
  MadeUp run(1, 2, {"run/precision=fp16", "strategy/wire=fp16"});
  const Snapshot before(run.updaters);
  CHECK(run.step(50000.0, false)); // finite on each rank
  CHECK(Snapshot(run.updaters) == before);
  CHECK(run.scale() == 32768.0);
  MadeUp single(1, 2, {"run/precision=bf16", "strategy/wire=bf16"});
  CHECK_FALSE(single.step(50000.0, false));
  CHECK(single.scale() == 1.0);
}

TEST_CASE("Steps that all overflow end the run", "[mixed]") {
  MadeUp run(std::min(4, everyone().size()), everyone().size() > 4 ? 2 : 1, {"run/precision=fp16"});
  for (int i = 0; i < 99; ++i) CHECK(run.step(1.0, true));
  CHECK_THROWS_AS(run.step(1.0, true), RunError);
}

TEST_CASE("16 bits give the same bits on any ranks, with or without offload", "[mixed]") {
  const std::string folder = "optimiser/offload_directory=" + std::filesystem::temp_directory_path().string();
  for (const char* precision : {"run/precision=bf16", "run/precision=fp16"}) {
    for (const char* optimiser : {"optimiser/kind=adamw", "optimiser/kind=sgd"}) {
      const Overrides deck{precision,
                           optimiser,
                           folder,
                           "strategy/stages=2",
                           "optimiser/clip_norm=1",
                           "optimiser/weight_decay=0.01",
                           "run/epochs=1",
                           "strategy/recovery_epochs=1"};
      const std::string expected = trainedHash(1, deck);
      CHECK(expected != trainedHash(1, deck + Overrides{"run/precision=float"}));
      CHECK(trainedHash(1, deck + Overrides{"optimiser/offload=file", "optimiser/offload_bucket=999"}) ==
            expected);
      CHECK(trainedHash(1, deck + Overrides{"optimiser/offload=host"}) == expected);
      if (everyone().size() < 2) continue;
      CHECK(trainedHash(2, deck) == expected);
      // Layers pass on rounded values, so that rounding for the transfer changes nothing.
      const std::string wire =
          std::string("strategy/wire=") + (std::string(precision) == "run/precision=bf16" ? "bf16" : "fp16");
      CHECK(trainedHash(2, deck + Overrides{wire, "optimiser/offload=host",
                                            "optimiser/offload_bucket=500"}) == expected);
    }
  }
}

TEST_CASE("Stages of 16 bits send half the bytes of floats, and learn the same on any ranks",
          "[mixed][sweep]") {
  constexpr double ratio = sizeof(Real) / 2.0; // in bytes
  const int most = everyone().size();
  const std::string layers = "{type='dense',units=144},{type='dense',units=144}",
                    branch =
                        "{type='residual',recompute=true,activation='gelu',layers=[" + layers + "],repeat=4}",
                    recomputes =
                        "network/layers=[{type='flatten'}," + branch + ",{type='batch-norm'},{type='dense'}]";
  const std::vector<Overrides> decks{
      {"strategy/kind=pipeline", "strategy/microbatches=3", "optimiser/offload=host"},
      {"strategy/kind=pipeline", recomputes},
      {"strategy/joint_every=3", "strategy/reconstruct=0.1"},
      {"strategy/input=frozen"},
      {"strategy/input=free", "strategy/recovery_epochs=1"},
      {"strategy/reencode=on", "strategy/recovery_epochs=1"}};
  for (const Overrides& chosen : decks) {
    const Overrides deck = chosen + Overrides{"strategy/stages=3", "run/epochs=2"};
    const std::string network = std::accumulate(deck.begin(), deck.end(), std::string());
    for (const int ranks : {1, 2}) {
      if (ranks > most) continue;
      const auto sent = [&](const Overrides& more) {
        SmallRun run(groupOf(ranks), smallDeck(deck + more));
        run.train();
        std::vector<double> all{static_cast<double>(run.grid.traffic.between_stages),
                                static_cast<double>(run.grid.traffic.evaluation)};
        run.grid.world().sum(all);
        return std::pair(all, run.hash());
      };
      INFO(network << " on " << ranks << " ranks");
      const auto floats = sent({"run/precision=float"}), halves = sent({"run/precision=bf16"}),
                 as_floats = sent({"run/precision=bf16", "strategy/wire=float"});
      CHECK((floats.first[0] > 0) == (ranks > 1));
      CHECK(ratio * halves.first[0] == floats.first[0]);
      CHECK(as_floats.first[0] == floats.first[0]);
      CHECK(ratio * halves.first[1] == floats.first[1]); // of evaluations, whatever the deck says
      CHECK(as_floats.first[1] == halves.first[1]);
      CHECK(as_floats.second == halves.second);
      CHECK(halves.second == trainedHash(1, deck + Overrides{"run/precision=bf16"}));
    }
  }
}

TEST_CASE("Replicas with sums of 16 bits stay copies of one another", "[mixed]") {
  if (everyone().size() < 2) return;
  for (const char* wire : {"strategy/wire=bf16", "strategy/wire=fp16"}) {
    for (const char* precision : {"run/precision=float", "run/precision=bf16", "run/precision=fp16"}) {
      SmallRun run(everyone(),
                   smallDeck({precision, wire, "strategy/kind=joint", "strategy/bucket_kib=1",
                              "strategy/replicas=" + std::to_string(everyone().size()), "data/samples=630"}));
      const std::vector<Real> before = run.stages.front()->stage.masters().values(ExecSpace());
      run.train();
      const std::vector<Real> own = run.stages.front()->stage.masters().values(ExecSpace());
      std::vector<Real> first = own;
      MPI_Bcast(first.data(), mpiCount(static_cast<std::int64_t>(first.size())), mpiType<Real>(), 0,
                run.grid.world().get());
      INFO(wire << ", " << precision);
      CHECK(own == first);
      CHECK(own != before);
    }
  }
}

TEST_CASE("A small network learns as well in 16 bits as in single precision", "[mixed]") {
  if (everyone().size() > 1) return;
  const auto lossOf = [](const std::string& precision) {
    return SmallRun(everyone(),
                    smallDeck({"run/precision=" + precision, "strategy/kind=joint", "run/epochs=3",
                               "data/samples=4000", "data/test_samples=2000", "training/batch=100",
                               "optimiser/learning_rate=0.003",
                               "network/layers=[{type='dense',units=64,activation='relu',repeat=2},"
                               "{type='dense'}]"}))
        .train()
        .evaluate()
        .loss.back();
  };
  const double expected = lossOf("float");
  CHECK(expected < 0.6); // the network has learnt
  for (const char* precision : {"bf16", "fp16"}) {
    const double found = lossOf(precision);
    INFO(precision << ": " << found << " against " << expected);
    CHECK(std::fabs(found - expected) < 0.01 * expected);
  }
}

TEST_CASE("Messages of 16 bits cross slow links with their stamps", "[mixed]") {
  const LinkScope slow({1e-3, 1e9, 0.0, 1});
  const Communicator& world = everyone();
  const ExecSpace space;
  constexpr std::int64_t rows = 3, columns = 7; // an odd number of values: the stamp is not aligned
  for (const Precision wire : halves) {
    std::int64_t bytes = 0;
    const int next = (world.rank() + 1) % world.size(),
              before = (world.rank() + world.size() - 1) % world.size();
    const MessagePath path = MessagePaths().messages;
    Sender sender({world, next, Tag::relay, "numbers", path, wire}, rows, columns, 2, bytes);
    Receiver receiver({world, before, Tag::relay, "numbers", path, wire}, rows, columns, 2, 3, 2);
    const Matrix matrix = makeMatrix("partita::test::matrix", rows, columns);
    fill(matrix, std::vector<Real>(matrix.size(), Real(1.2345)));
    const double begin = linkSeconds();
    world.barrier(); // no rank sends before this
    for (int i = 0; i < 2; ++i) sender.send(space, matrix);
    const TypedMatrix first = receiver.take(space), second = receiver.take(space); // both are held
    CHECK(linkSeconds() - begin > 1e-3);
    roundTo(space, wire, matrix);
    fence(space, "partita::test::received");
    CHECK(first.data != second.data);
    CHECK(stored(first.values()) == stored(matrix));
    CHECK(stored(second.values()) == stored(matrix));
    sender.finish();
    CHECK(bytes == 2 * rows * columns * 2);
    receiver.release(space);
    sender.send(space, matrix); // the third, so that no message is left
    CHECK(stored(receiver.take(space).values()) == stored(matrix));
    sender.finish();
  }
}

TEST_CASE("A pipeline of 16 bits comes to the bits of one rank", "[mixed]") {
  for (const char* precision : {"bf16", "fp16"}) {
    for (const char* clip : {"optimiser/clip_norm=0", "optimiser/clip_norm=0.3"}) {
      const Overrides deck{std::string("run/precision=") + precision, clip, "run/steps=20",
                           "strategy/microbatches=3", "optimiser/kind=adamw"};
      const std::string expected = trainedHash(1, deck + Overrides{"strategy/kind=joint"});
      for (int stages = 2; stages <= std::min(4, everyone().size()); ++stages) {
        INFO(stages << " stages, " << precision << ", " << clip);
        const std::string count = "strategy/stages=" + std::to_string(stages);
        CHECK(trainedHash(stages, deck + Overrides{"strategy/kind=pipeline", count}) == expected);
        CHECK(trainedHash(stages, deck + Overrides{"strategy/kind=pipeline", count,
                                                   std::string("strategy/wire=") + precision,
                                                   "optimiser/offload=host",
                                                   "optimiser/offload_bucket=500"}) == expected);
      }
    }
  }
}

} // namespace partita::test::mixed
