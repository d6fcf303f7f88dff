#include "partita/comm/watchdog.hpp"

#include <cmath>

#include "common_clock.hpp"
#include "pmpi.hpp"
#include "small_run.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/link_scope.hpp"

namespace partita::test::pipeline {

/// Compares the pipeline with one rank that sums the gradients of the same microbatches: the bits are the
/// same for any grid, schedule and timing.

namespace {

const std::vector<Overrides> schedules{
    {"strategy/schedule=message-driven"},
    {"strategy/schedule=message-driven", "strategy/tie=backward-first", "strategy/caps=true"},
    {"strategy/schedule=message-driven", "strategy/tie=fifo", "strategy/limit=2"},
    {"strategy/schedule=1f1b"},
    {"strategy/schedule=1f1b-eager"},
    {"strategy/schedule=gpipe"}};

Overrides microbatches(int count) {
  return {"strategy/microbatches=" + std::to_string(count)};
}

Overrides pipelineOf(int stages) {
  return {"strategy/kind=pipeline", "strategy/stages=" + std::to_string(stages)};
}

const Overrides steps{"run/steps=20"};

/// The hash from one rank.
std::string serialHash(const Overrides& deck) {
  return trainedHash(1, Overrides{"strategy/kind=joint"} + deck);
}

/// Numbers of stages for which this job has enough ranks.
std::vector<int> stageCounts() {
  std::vector<int> counts;
  for (int stages = 1; stages <= 4; ++stages)
    if (stages <= everyone().size()) counts.push_back(stages);
  return counts;
}

} // namespace

TEST_CASE("A pipeline comes to the bits of one rank, whatever grid and schedule", "[pipeline][sweep]") {
  for (const int count : {1, 2, 3, 5, 16}) {
    const std::string expected = serialHash(steps + microbatches(count));
    for (const int stages : stageCounts()) {
      for (const Overrides& schedule : schedules) {
        INFO(stages << " stages, " << count << " microbatches, " << schedule.back());
        CHECK(trainedHash(stages, pipelineOf(stages) + schedule + steps + microbatches(count)) == expected);
      }
    }
  }
}

TEST_CASE("A pipeline whose ranks have several stages gives the same bits", "[pipeline]") {
  const std::string expected = serialHash(steps + microbatches(3));
  for (const int ranks : stageCounts()) {
    for (const int stages : {4, 6}) {
      INFO(stages << " stages on " << ranks << " ranks");
      CHECK(trainedHash(ranks, pipelineOf(stages) + steps + microbatches(3)) == expected);
    }
  }
}

TEST_CASE("A pipeline gives the same bits with any optimiser, clipping, buffering", "[pipeline]") {
  const std::vector<Overrides> variants{
      {"optimiser/clip_norm=0.3"},
      {"optimiser/kind=sgd", "optimiser/clip_norm=0.5"},
      {"optimiser/kind=adamw", "optimiser/weight_decay=0.01", "optimiser/warmup_steps=5"},
      {"training/batch=37"},
      {"training/batch=2", "strategy/microbatches=16"}, // more microbatches than samples
      {"training/loss=mse"},
      {"data/prefetch=0", "run/device_aware_mpi=off"},
      {"run/evaluate_every=1", "run/steps=40"}};
  for (const Overrides& variant : variants) {
    const Overrides deck = steps + microbatches(3) + variant;
    const std::string expected = serialHash(deck);
    for (const int stages : stageCounts()) {
      INFO(stages << " stages, " << variant.front());
      CHECK(trainedHash(stages, pipelineOf(stages) + deck) == expected);
    }
  }
}

TEST_CASE("A pipeline does not depend on timing", "[pipeline]") {
  const Overrides deck = Overrides{"run/steps=4"} + microbatches(5);
  const std::string expected = serialHash(deck);
  for (const int stages : stageCounts()) {
    for (std::size_t i = 0; stages > 1 && i < schedules.size(); ++i) {
      const MpiDelays calls(i);
      const LinkScope late({0.0, 0.0, 0.002, static_cast<std::int64_t>(i)});
      INFO(stages << " stages, " << schedules[i].back());
      CHECK(trainedHash(stages, pipelineOf(stages) + schedules[i] + deck) == expected);
    }
    const LinkScope slow({0.001, 1e7, 0.0, 1});
    CHECK(trainedHash(stages, pipelineOf(stages) + deck) == expected);
  }
}

/// Hidden, as it takes minutes. The delays of the method's own acceptance test: up to 20 ms before every
/// operation and message.
TEST_CASE("A pipeline does not depend on timing, a hundred times", "[.slow_pipeline]") {
  const Overrides deck = steps + microbatches(3);
  const std::string expected = serialHash(deck);
  const int stages = stageCounts().back();
  for (int seed = 0; seed < 100; ++seed) {
    const LinkScope late({0.0, 0.0, 0.02, seed});
    INFO(stages << " stages, seed " << seed);
    CHECK(trainedHash(stages, pipelineOf(stages) +
                                  schedules[static_cast<std::size_t>(seed) % schedules.size()] + deck) ==
          expected);
  }
}

TEST_CASE("The learned parameters depend on the microbatches, and little", "[pipeline]") {
  CHECK(serialHash(steps) == serialHash(steps + microbatches(1)));
  CHECK(serialHash(steps) != serialHash(steps + microbatches(4))); // otherwise nothing above is proved
  CHECK(serialHash(steps) != serialHash(Overrides{"run/steps=19"}));
}

TEST_CASE("The gradients of microbatches add up to that of the batch", "[pipeline]") {
  const auto trained = [](int count) {
    SmallRun run(groupOf(1), smallDeck(Overrides{"strategy/kind=joint", "optimiser/kind=sgd", "run/steps=5"} +
                                       microbatches(count)));
    return run.train().ownParameters();
  };
  const std::vector<Real> whole = trained(1),
                          start = SmallRun(groupOf(1), smallDeck({"strategy/kind=joint"})).ownParameters();
  const auto distance = [&](const std::vector<Real>& from) {
    double sum = 0.0;
    for (std::size_t i = 0; i < whole.size(); ++i)
      sum += std::pow(static_cast<double>(from[i] - whole[i]), 2.0);
    return std::sqrt(sum);
  };
  for (const int count : {2, 3, 7}) CHECK(distance(trained(count)) < 1e-4 * distance(start));
}

TEST_CASE("A recovery leaves learned labels as they are", "[pipeline][sil]") {
  const auto headsAndOthers = [](const char* recovery) {
    SmallRun run(groupOf(1), smallDeck({"strategy/labels=learned", "run/epochs=1", "optimiser/kind=adamw",
                                        "optimiser/weight_decay=0.1", recovery}));
    run.train();
    std::vector<Real> heads, others;
    for (const auto& local : run.stages) {
      const std::vector<Real> all = local->stage.masters().values(ExecSpace());
      const auto head = all.begin() + local->stage.ownParameters();
      heads.insert(heads.end(), head, all.end());
      others.insert(others.end(), all.begin(), head);
    }
    return std::pair(heads, others);
  };
  const auto before = headsAndOthers("strategy/recovery_epochs=0"),
             after = headsAndOthers("strategy/recovery_epochs=1");
  CHECK_FALSE(before.first.empty());
  CHECK(after.first == before.first);
  CHECK(after.second != before.second);
}

TEST_CASE("A recovery goes on where training has ended: with other samples and random numbers",
          "[pipeline][sil]") {
  const Overrides deck{"optimiser/kind=sgd", "optimiser/momentum=0", "optimiser/schedule=constant",
                       "network/layers=[{type='dense',units=32,activation='relu'},{type='dropout'},"
                       "{type='dense'}]"};
  const std::string expected = serialHash(deck + Overrides{"run/epochs=2"});
  CHECK(trainedHash(1, deck + Overrides{"strategy/stages=1", "run/epochs=1", "strategy/recovery_epochs=1",
                                        "strategy/recovery_rate=1"}) == expected);
}

TEST_CASE("Live activations stay within the limit, and use it", "[pipeline]") {
  constexpr std::int64_t count = 8;
  const Communicator& world = everyone();
  const int groups = world.size();
  const auto mostLive = [&](const Overrides& schedule) {
    SmallRun run(world, smallDeck(pipelineOf(groups) + schedule + microbatches(count) +
                                  Overrides{"run/steps=5", "strategy/replicas=1"}));
    return run.train().most_live;
  };
  const bool last = world.rank() + 1 == groups;
  for (const int limit : {1, 2, 3}) {
    const std::int64_t live = mostLive({"strategy/limit=" + std::to_string(limit)});
    CHECK(live >= 1);
    CHECK(live <= (last ? 1 : limit));
    CHECK(mostLive({"strategy/schedule=gpipe", "strategy/limit=" + std::to_string(limit)}) ==
          (last ? 1 : limit));
  }
  CHECK(mostLive({"strategy/schedule=gpipe"}) == (last ? 1 : count));
  CHECK(mostLive({"strategy/schedule=1f1b"}) == std::min<std::int64_t>(count, groups - world.rank()));
  CHECK(mostLive({"strategy/schedule=1f1b-eager"}) ==
        std::min<std::int64_t>(count, 2 * (groups - 1 - world.rank()) + 1));
  const std::int64_t cap = groups - world.rank() + groups / 2;
  CHECK(mostLive({"strategy/caps=true"}) <= (last ? 1 : cap));
}

namespace {

/// Counts the allocations after the second step, except for the evaluation at the end of the run.
class AllocationWatch : public StepControl {
 public:
  bool afterStep(const ExecSpace&, const Position& position, const std::vector<StageUpdater*>&) override {
    if (position.step == 2) _later = std::make_unique<Allocations>();
    if (position.step < whole_run) count = _later == nullptr ? -1 : _later->count();
    last = position.step;
    return false;
  }
  static constexpr std::int64_t whole_run = 150;
  std::int64_t count = -1, last = 0;

 private:
  std::unique_ptr<Allocations> _later;
};

} // namespace

TEST_CASE("A pipeline allocates nothing after its first steps, however many there are",
          "[pipeline][memory]") {
  for (const char* path : {"run/device_aware_mpi=auto", "run/device_aware_mpi=off"}) {
    for (const Overrides& schedule : schedules) {
      SmallRun run(everyone(), smallDeck(pipelineOf(everyone().size()) + schedule + microbatches(5) +
                                         Overrides{"run/steps=150", "optimiser/clip_norm=0.5", path}));
      AllocationWatch watch;
      run.train(watch);
      CHECK(watch.last == AllocationWatch::whole_run);
      CHECK(watch.count == 0);
    }
  }
}

TEST_CASE("A pipeline of 16 bits, or with its state elsewhere, allocates nothing after its first steps",
          "[pipeline][sweep]") {
  for (const char* precision : {"run/precision=float", "run/precision=bf16", "run/precision=fp16"}) {
    for (const char* store : {"optimiser/offload=none", "optimiser/offload=host", "optimiser/offload=file"}) {
      SmallRun run(everyone(), smallDeck(pipelineOf(everyone().size()) + microbatches(5) +
                                         Overrides{"run/steps=150", "optimiser/offload_bucket=700", precision,
                                                   store, "strategy/wire=fp16"}));
      AllocationWatch watch;
      run.train(watch);
      CHECK(watch.last == AllocationWatch::whole_run);
      CHECK(watch.count == 0);
    }
  }
}

TEST_CASE("Replicas whose updates wait for the next forward pass allocate nothing after their first steps",
          "[pipeline]") {
  for (const char* path : {"run/device_aware_mpi=auto", "run/device_aware_mpi=off"}) {
    SmallRun run(everyone(), smallDeck({"strategy/kind=joint", "strategy/replicas=0", "strategy/bucket_kib=1",
                                        "run/steps=150", "run/log_every=100", path}));
    AllocationWatch watch;
    run.train(watch);
    CHECK(watch.last == AllocationWatch::whole_run);
    CHECK(watch.count == 0);
  }
}

TEST_CASE("Evaluation with many more batches than messages on their way ends", "[pipeline]") {
  SmallRun alone(groupOf(1), smallDeck({"strategy/kind=joint"}));
  const Evaluation expected = alone.evaluate();
  for (const char* limit : {"strategy/limit=1", "strategy/limit=0"}) {
    SmallRun run(everyone(),
                 smallDeck(pipelineOf(everyone().size()) + microbatches(40) +
                           Overrides{limit, "strategy/queue=1", "run/steps=2", "strategy/replicas=1"}));
    const Evaluation found = run.evaluate(); // 130 batches of one sample
    REQUIRE(found.accuracy.size() == 1);
    CHECK(found.accuracy.back() == expected.accuracy.back());
    CHECK(found.loss.back() == Approx(expected.loss.back()).epsilon(1e-6));
    run.train();
    CHECK(run.evaluate().loss.back() != found.loss.back());
  }
}

TEST_CASE("A pipeline sends activations one way, gradients the other, and no labels", "[pipeline]") {
  constexpr std::int64_t width = 32, batch = 40, count = 20, parts = 3;
  SmallRun run(everyone(), smallDeck(pipelineOf(everyone().size()) + microbatches(parts) + steps));
  const MpiRecording recording;
  run.train();
  const Grid& grid = run.grid;
  const bool first = grid.group() == 0, last = grid.group() + 1 == grid.plan().groups;
  const std::int64_t bytes = count * batch * width * static_cast<std::int64_t>(sizeof(Real));
  const auto onward = recording.on(grid.chain(), MpiCall::send),
             back = recording.on(grid.backward(), MpiCall::send);
  CHECK(totalBytes(onward) == (last ? 0 : bytes));
  CHECK(totalBytes(back) == (first ? 0 : bytes));
  CHECK(static_cast<std::int64_t>(onward.size()) == (last ? 0 : count * parts));
  CHECK(static_cast<std::int64_t>(back.size()) == (first ? 0 : count * parts));
  for (const MpiRecord& record : onward) CHECK(record.peer == grid.group() + 1);
  for (const MpiRecord& record : back) CHECK(record.peer == grid.group() - 1);
  CHECK(grid.traffic.between_stages == totalBytes(onward) + totalBytes(back));
}

TEST_CASE("A stalled pipeline is reported: who waits for what", "[pipeline]") {
  const int ranks = everyone().size();
  if (ranks == 1) return;
  Watchdog::Limits limits;
  limits.sign = 0.05;
  limits.stuck = 1.5;
  std::vector<std::string> ends;
  CommonClock clock(everyone());
  MpiLoss loss(0, 5);
  std::string hash;
  const Overrides deck = steps + microbatches(3);
  const std::string expected = serialHash(deck);
  {
    const Watchdog watchdog(everyone(), limits,
                            {[](const std::string&) {},
                             [&](const std::string& text) {
                               ends.push_back(text);
                               loss.deliver();
                             }},
                            [&] { return clock.seconds(); });
    hash = trainedHash(ranks, pipelineOf(ranks) + deck);
  }
  CHECK(hash == expected);
  if (everyone().rank() > 0) return;
  REQUIRE(ends.size() == 1);
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(ends[0], ContainsSubstring("waiting for one another; a message is lost"));
  CHECK_THAT(ends[0], ContainsSubstring("rank 0: waiting "));
  CHECK_THAT(ends[0], ContainsSubstring("for message 5 (gradients of activations) from rank 1"));
  CHECK_THAT(ends[0], ContainsSubstring("rank 1: waiting "));
  CHECK_THAT(ends[0], ContainsSubstring("for message 5 (activations) from rank 0"));
}

} // namespace partita::test::pipeline
