#include "partita/plan/stage_memory.hpp"

#include <cstdlib>
#include <filesystem>

#include "small_run.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"

namespace partita::test::memory {

/// The memory planned for a rank is what it allocates on its device.

namespace {

/// Four steps; the evaluation after the last one fills its queues.
RunConfig deckOf(const Overrides& overrides) {
  const Overrides shared{"network/layers=[{type='dense',units=96,activation='relu',repeat=4},"
                         "{type='dense',units=80,activation='gelu'},{type='dense'}]",
                         "training/batch=96",
                         "data/samples=384",
                         "data/test_samples=400",
                         "run/steps=4",
                         "optimiser/offload_bucket=3000",
                         "optimiser/offload_directory=" + std::filesystem::temp_directory_path().string()};
  return smallDeck(shared + overrides);
}

/// Records the memory in use after each step without an evaluation.
class Watch : public StepControl {
 public:
  explicit Watch(const Allocations& allocations) : _allocations(allocations) {}
  bool afterStep(const ExecSpace&, const Position& position, const std::vector<StageUpdater*>&) override {
    if (position.step == 2) most = std::max(most, _allocations.liveBytes());
    return false;
  }
  std::int64_t most = 0;

 private:
  const Allocations& _allocations;
};

/// Sums over all stages of this rank.
struct Planned {
  std::int64_t bytes = 0, stages = 0;
};

Planned planOf(const SmallRun& run, bool evaluates) {
  Planned planned;
  for (const auto& local : run.stages) {
    const StageMemory memory = partMemory(run.config, run.partition, run.grid.plan(), local->index(),
                                          run.grid.part(), deviceKind(run.grid.paths()));
    planned.bytes += memory.total() - (evaluates ? 0 : memory.evaluation);
    ++planned.stages;
  }
  return planned;
}

/// What the plan of a stage leaves out: norms, sums, the headers of 20 to 50 allocations, and on a device
/// what Kokkos allocates for each of up to five streams.
constexpr std::int64_t small = 6144 + (device_is_host ? 0 : 5 * 73728);

void checkClose(std::int64_t found, const Planned& planned) {
  INFO(found << " bytes, planned " << planned.bytes);
  CHECK(std::abs(found - planned.bytes) <= small * planned.stages);
}

/// For stages that hardly ever need everything at once.
void checkBounded(std::int64_t found, const Planned& planned) {
  INFO(found << " bytes, planned at most " << planned.bytes);
  CHECK(found <= planned.bytes + small * planned.stages);
  CHECK(found >= 6 * planned.bytes / 10);
}

using Check = void (*)(std::int64_t found, const Planned& planned);

/// Checks the peak and, with `steps`, also what steps without an evaluation need.
void checkPlan(int ranks, const Overrides& overrides, Check check = checkClose, bool steps = true) {
  if (everyone().size() != ranks) return;
  std::string text = std::to_string(ranks) + " ranks";
  for (const std::string& part : overrides) text += " " + part;
  INFO(text);
  const RunConfig deck = deckOf(overrides);
  // Plans count 16 bits as half a `Real`, which is too much if that is a double.
  if (sizeof(Real) > sizeof(float) && deck.run.precision != Precision::single) check = checkBounded;
  const Allocations allocations;
  Watch watch(allocations);
  SmallRun run(everyone(), deck);
  run.train(watch);
  if (steps) check(watch.most, planOf(run, false));
  check(allocations.peakBytes(), planOf(run, true));
}

/// On as many ranks as there are stages, on one rank, and with two replicas.
void checkOnRanks(int stages, const Overrides& deck) {
  Overrides all = deck;
  all.push_back("strategy/stages=" + std::to_string(stages));
  checkPlan(stages, all);
  if (stages > 1) checkPlan(1, all);
  if (stages > 2) checkPlan(2, all);
  all.push_back("strategy/replicas=2");
  checkPlan(2 * stages, all);
}

} // namespace

TEST_CASE("A plan of joint training counts what is allocated", "[memory]") {
  for (const char* microbatches : {"strategy/microbatches=1", "strategy/microbatches=4"}) {
    for (const char* offload :
         {"optimiser/offload=none", "optimiser/offload=host", "optimiser/offload=file"}) {
      const Overrides deck{"strategy/kind=joint", microbatches, offload};
      checkPlan(1, deck);
      for (const char* wire : {"strategy/wire=float", "strategy/wire=bf16"}) {
        checkPlan(2, {"strategy/kind=joint", microbatches, offload, wire, "strategy/replicas=2"});
        checkPlan(1, {"strategy/kind=joint", microbatches, offload, wire, "run/precision=bf16"});
      }
    }
  }
  checkPlan(1, {"strategy/kind=joint", "training/loss=mse", "data/prefetch=0"});
  checkPlan(2, {"strategy/kind=joint", "strategy/replicas=2", "run/device_aware_mpi=off"});
  checkPlan(2, {"strategy/kind=joint", "strategy/replicas=2", "strategy/bucket_kib=32"}); // several at once
}

TEST_CASE("A plan counts the statistics that skipped steps restore", "[memory]") {
  const Overrides norm{"strategy/kind=joint",
                       "network/layers=[{type='dense',units=3000},{type='batch-norm'},{type='dense'}]"};
  for (const char* precision : {"run/precision=float", "run/precision=bf16"})
    checkPlan(1, norm + Overrides{precision});
}

TEST_CASE("A plan of stages that parts share counts what is allocated", "[memory][parts]") {
  const std::string images =
      "network/layers=[{type='conv2d',channels=12,kernel=3,padding=1,activation='gelu'},"
      "{type='conv2d',channels=16,kernel=3,padding=1,bias=false},"
      "{type='batch-norm',activation='relu'},{type='max-pool',kernel=2},"
      "{type='flatten'},{type='dense',units=60,activation='relu'},{type='dense'}]";
  for (const char* split : {"filter", "channel", "grid", "spatial"}) {
    for (const int parts : {2, 4}) {
      checkPlan(parts, {"strategy/kind=joint", images, "strategy/split=" + std::string(split),
                        "strategy/parts=" + std::to_string(parts)});
    }
    checkPlan(4, {"strategy/kind=pipeline", "strategy/schedule=gpipe", "strategy/microbatches=3", images,
                  "strategy/stages=2", "strategy/split=" + std::string(split), "strategy/parts=2"});
    for (const char* input : {"strategy/input=relay", "strategy/input=free"})
      checkPlan(4, {"strategy/kind=sil", input, images, "strategy/stages=2",
                    "strategy/split=" + std::string(split), "strategy/parts=2"});
  }
}

namespace {

const Overrides tokens{
    "strategy/kind=joint", "data/kind=grammar", "data/classes=0", "data/sequence=12",
    "network/layers=[{type='embedding',width=24,positions=true},{type='dropout'},{type='residual',layers=["
    "{type='layer-norm'},{type='attention',heads=6}]},{type='residual',recompute=true,layers=["
    "{type='layer-norm'},{type='dense',units=90,activation='gelu'},{type='dense',units=24}]},"
    "{type='layer-norm'},{type='dense'}]"};

} // namespace

TEST_CASE("A plan of a transformer of 16 bits counts what is allocated", "[memory]") {
  // Kokkos grows its scratch for teams on hosts at first use.
  SmallRun(groupOf(1), smallDeck(tokens + Overrides{"run/precision=bf16"})).train();
  for (const char* loss : {"training/loss=cross-entropy", "training/loss=mse"}) {
    const Overrides half = tokens + Overrides{loss, "run/precision=bf16"};
    checkPlan(1, half);
    checkPlan(2, half + Overrides{"strategy/replicas=2", "strategy/microbatches=2"});
    checkOnRanks(2, half + Overrides{"strategy/kind=pipeline", "strategy/schedule=gpipe"});
    checkOnRanks(2, half + Overrides{"strategy/kind=sil"});
  }
  checkOnRanks(2, tokens + Overrides{"run/precision=bf16", "strategy/kind=sil", "strategy/exits=sum"});
}

TEST_CASE("A plan of a transformer that parts share counts what is allocated", "[memory][parts]") {
  for (const int parts : {2, 4}) {
    const Overrides all = tokens + Overrides{"strategy/parts=" + std::to_string(parts)};
    checkPlan(parts, all);
    checkPlan(parts, all + Overrides{"training/loss=mse", "run/precision=bf16"});
    if (parts == 2) checkPlan(4, all + Overrides{"strategy/replicas=2", "strategy/microbatches=2"});
  }
  checkPlan(4, tokens + Overrides{"strategy/parts=2", "strategy/kind=pipeline", "strategy/schedule=gpipe",
                                  "strategy/microbatches=3", "strategy/stages=2"});
}

TEST_CASE("A plan of stages with heads and exits counts what is allocated", "[memory]") {
  checkOnRanks(2, {"strategy/kind=sil", "strategy/exits=sum"});
  checkOnRanks(2, {"strategy/kind=sil", "run/precision=bf16"});
  checkOnRanks(2, {"strategy/kind=sil", "strategy/head=[{type='dense',units=200,activation='gelu'}]"});
  checkOnRanks(3, {"strategy/kind=sil", "strategy/recovery_epochs=1"});
  checkOnRanks(2, {"strategy/kind=sil", "strategy/reconstruct=0.1"});
  checkOnRanks(3, {"strategy/kind=sil", "strategy/reconstruct=0.1", "run/precision=bf16"});
  checkOnRanks(3, {"strategy/kind=sil", "strategy/recovery_epochs=1", "strategy/microbatches=4",
                   "run/precision=bf16"});
}

TEST_CASE("A plan of stages that get gradients or parameters of later stages counts what is allocated",
          "[memory]") {
  checkOnRanks(2, {"strategy/kind=sil", "strategy/joint_every=2"});
  checkOnRanks(2, {"strategy/kind=sil", "strategy/joint_every=2", "strategy/wire=bf16"});
  checkOnRanks(2, {"strategy/kind=sil", "strategy/joint_every=2", "run/precision=bf16"});
  for (const char* offload : {"optimiser/offload=none", "optimiser/offload=file"})
    checkOnRanks(4, {"strategy/kind=sil", "strategy/lookahead=1", offload});
  const Overrides copies{"strategy/kind=sil", "strategy/lookahead=1", "strategy/refresh=1",
                         "run/precision=bf16", "strategy/head=[{type='dense',units=80,activation='gelu'}]"};
  checkOnRanks(2, copies);
  checkPlan(4, copies + Overrides{"strategy/stages=2", "strategy/parts=2", "strategy/split=filter"});
}

TEST_CASE("A plan of replicas that meet counts what is allocated", "[memory]") {
  for (const char* outer : {"strategy/outer=average", "strategy/outer=nesterov"}) {
    for (const char* offload :
         {"optimiser/offload=none", "optimiser/offload=host", "optimiser/offload=file"}) {
      for (const char* precision : {"run/precision=float", "run/precision=bf16"}) {
        const Overrides deck{"strategy/kind=local-sgd", outer, offload, precision, "strategy/replicas=0"};
        checkPlan(1, deck);
        checkPlan(2, deck);
      }
    }
  }
}

TEST_CASE("A plan of a pipeline counts what is allocated", "[memory]") {
  for (const char* schedule : {"message-driven", "1f1b", "gpipe"}) {
    for (const char* microbatches : {"strategy/microbatches=1", "strategy/microbatches=4"}) {
      for (int stages = 1; stages <= 4; ++stages) {
        const Overrides deck{"strategy/kind=pipeline", std::string("strategy/schedule=") + schedule,
                             microbatches};
        checkOnRanks(stages, deck);
      }
    }
  }
}

TEST_CASE("A plan counts messages of 16 bits and staged ones", "[memory]") {
  for (const char* offload : {"optimiser/offload=none", "optimiser/offload=file"}) {
    for (const Overrides& numbers :
         {Overrides{"run/precision=bf16"}, Overrides{"run/precision=bf16", "strategy/wire=float"},
          Overrides{"run/precision=bf16", "run/device_aware_mpi=off"}, Overrides{"strategy/wire=bf16"},
          Overrides{"run/device_aware_mpi=off"},
          Overrides{"run/device_aware_mpi=off", "strategy/wire=fp16"}}) {
      Overrides deck = Overrides{"strategy/kind=pipeline", "strategy/microbatches=4", offload} + numbers;
      for (const int stages : {2, 4}) checkOnRanks(stages, deck);
      deck.front() = "strategy/kind=sil";
      deck[1] = "strategy/queue=2";
      for (const int stages : {2, 4}) checkOnRanks(stages, deck);
    }
  }
}

TEST_CASE("A plan of sil counts labels, inputs made of them, and the recovery", "[memory]") {
  for (const char* input : {"strategy/input=relay", "strategy/input=free"}) {
    for (const char* loss : {"strategy/loss=prototype", "strategy/loss=mse"}) {
      for (int stages = 1; stages <= 4; ++stages)
        checkOnRanks(stages, {"strategy/kind=sil", input, loss, "strategy/queue=3"});
    }
    for (const char* precision : {"run/precision=float", "run/precision=fp16"})
      checkOnRanks(2, {"strategy/kind=sil", input, "strategy/queue=1", "strategy/recovery_epochs=1",
                       "strategy/microbatches=4", precision});
  }
  checkOnRanks(3, {"strategy/kind=sil", "strategy/input=free", "strategy/loss=mse", "strategy/mixture=on",
                   "training/loss=mse"});
}

TEST_CASE("A plan counts what images and tokens need", "[memory]") {
  const Overrides images{"network/layers=[{type='conv2d',channels=8,kernel=3,activation='relu'},"
                         "{type='batch-norm'},{type='residual',activation='gelu',layers=["
                         "{type='conv2d',channels=8,kernel=3,padding=1},{type='batch-norm'}]},"
                         "{type='group-norm',groups=4},{type='max-pool'},{type='dense'}]",
                         "training/batch=24", "data/samples=96"};
  const Overrides tokens{"network/layers=[{type='embedding',width=24},{type='block',repeat=2,layers=["
                         "{type='residual',layers=[{type='layer-norm'},{type='attention',heads=2}]},"
                         "{type='residual',layers=[{type='layer-norm'},{type='dense',units=24}]}]},"
                         "{type='dense'}]",
                         "data/kind=grammar",
                         "data/classes=0",
                         "data/sequence=16",
                         "training/batch=24",
                         "data/samples=96"};
  for (const Overrides& network : {images, tokens}) {
    for (const Overrides& strategy :
         {Overrides{"strategy/kind=pipeline", "strategy/microbatches=3"},
          Overrides{"strategy/kind=sil", "strategy/queue=2", "strategy/labels=gaussian"},
          Overrides{"strategy/kind=sil", "strategy/queue=2", "strategy/input=free",
                    "strategy/labels=gaussian"}})
      checkOnRanks(2, network + strategy);
  }
}

TEST_CASE("A plan of frozen stages bounds what they allocate in turn", "[memory]") {
  const Overrides deck{"strategy/kind=sil", "strategy/input=frozen", "strategy/stages=2", "strategy/queue=3"};
  checkPlan(1, deck, checkBounded);
  checkPlan(2, deck + Overrides{"strategy/stages=4"}, checkBounded, false);
}

TEST_CASE("A plan of frozen stages on ranks of their own counts what is allocated", "[memory]") {
  // Two epochs: stages read what they have spilled. Messages of the first one precede the evaluation and use
  // its part of the plan.
  const Overrides deck{"strategy/kind=sil", "strategy/input=frozen", "strategy/queue=3", "run/steps=8"};
  const auto check = [&](int ranks, const Overrides& more) {
    checkPlan(ranks, deck + more, checkClose, false);
  };
  for (const char* prefetch : {"data/prefetch=0", "data/prefetch=2"}) {
    check(2, {"strategy/stages=2", prefetch});
    check(2, {"strategy/stages=2", prefetch, "run/precision=bf16"});
    check(4, {"strategy/stages=4", prefetch});
  }
  check(2, {"strategy/stages=2", "data/prefetch=0", "run/precision=bf16", "strategy/wire=float"});
  check(4, {"strategy/stages=2", "strategy/replicas=2"});
}

} // namespace partita::test::memory
