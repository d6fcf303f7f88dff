#include "pmpi.hpp"
#include "small_run.hpp"
#include "support/catch.hpp"

namespace partita::test::traffic {

/// Bytes between stages: what really leaves a rank, observed at the MPI calls, compared with what the method
/// allows and with the program's own counters.

namespace {

constexpr std::int64_t samples = 600, batch = 40, width = 32;
constexpr auto value_bytes = static_cast<std::int64_t>(sizeof(Real));

/// A run on all ranks, with one or more stages per rank.
struct RecordedRun {
  explicit RecordedRun(std::vector<std::string> overrides)
      : run(everyone(), smallDeck(overrides)), first(run.grid.group() == 0),
        last(run.grid.group() + 1 == run.grid.plan().groups) {
    recording = std::make_unique<MpiRecording>();
    run.train();
    sends = recording->on(run.grid.chain(), MpiCall::send);
    for (const MpiRecord& record : recording->on(run.grid.backward(), MpiCall::send)) sends.push_back(record);
    receives = recording->on(run.grid.chain(), MpiCall::receive);
    evaluation = recording->on(run.grid.evaluation(), MpiCall::send);
    all = recording->all();
    recording.reset();
  }

  /// Checks that `count` messages of at most `rows` activations go to the next rank, none to other ranks, and
  /// none back.
  void checkForwardOnly(std::int64_t count, std::int64_t rows_per_message) const {
    CHECK(static_cast<std::int64_t>(sends.size()) == (last ? 0 : count));
    CHECK(static_cast<std::int64_t>(receives.size()) == (first ? 0 : count));
    for (const MpiRecord& record : sends) {
      CHECK(record.peer == run.grid.group() + 1);
      CHECK(record.bytes <= rows_per_message * width * value_bytes);
    }
    for (const MpiRecord& record : receives) CHECK(record.peer == run.grid.group() - 1);
  }

  void checkCounters() const {
    CHECK(run.grid.traffic.between_stages == totalBytes(sends));
    CHECK(run.grid.traffic.evaluation == totalBytes(evaluation));
  }

  SmallRun run;
  bool first, last;
  std::unique_ptr<MpiRecording> recording;
  std::vector<MpiRecord> sends, receives, evaluation, all;
};

} // namespace

TEST_CASE("Free: no message between stages while training", "[traffic]") {
  for (const char* mixture : {"strategy/mixture=on", "strategy/mixture=off"}) {
    const RecordedRun recorded({"strategy/input=free", mixture});
    CHECK(recorded.sends.empty());
    CHECK(recorded.receives.empty());
    CHECK(recorded.run.grid.traffic.between_stages == 0);
    recorded.checkCounters();
    std::int64_t elsewhere = 0;
    for (const MpiRecord& record : recorded.all) {
      if (record.comm != recorded.run.grid.evaluation().get()) elsewhere += record.bytes;
    }
    // The sums of the single evaluation at the end: a count and a loss per stage. Nothing else leaves a rank.
    CHECK(elsewhere == 4 * 2 * static_cast<std::int64_t>(sizeof(double)));
  }
}

TEST_CASE("Relay: the activations of every batch once, forward only", "[traffic]") {
  for (const char* queue : {"strategy/queue=1", "strategy/queue=4"}) {
    const RecordedRun recorded({"strategy/input=relay", queue});
    const std::int64_t steps = 2 * (samples / batch);
    recorded.checkForwardOnly(steps, batch);
    CHECK(totalBytes(recorded.sends) == (recorded.last ? 0 : steps * batch * width * value_bytes));
    recorded.checkCounters();
  }
}

TEST_CASE("Frozen: the activations of every sample once, whatever the epochs", "[traffic]") {
  for (const int count : {600, 638}) {
    for (const int epochs : {2, 3}) {
      const RecordedRun recorded({"strategy/input=frozen", "data/samples=" + std::to_string(count),
                                  "run/epochs=" + std::to_string(epochs)});
      recorded.checkForwardOnly((count + batch - 1) / batch, batch);
      CHECK(totalBytes(recorded.sends) == (recorded.last ? 0 : count * width * value_bytes));
      recorded.checkCounters();
    }
  }
}

TEST_CASE("Frozen: a run of one epoch sends whole batches only", "[traffic]") {
  const RecordedRun recorded({"strategy/input=frozen", "data/samples=638", "run/epochs=1"});
  recorded.checkForwardOnly(samples / batch, batch);
  recorded.checkCounters();
}

TEST_CASE("Frozen: a run of less than an epoch sends its own batches only", "[traffic]") {
  const RecordedRun recorded({"strategy/input=frozen", "run/steps=5"});
  recorded.checkForwardOnly(5, batch);
  recorded.checkCounters();
}

TEST_CASE("Recovery: an activation forward and a gradient back a step", "[traffic]") {
  const RecordedRun trained({"run/epochs=1", "strategy/input=free"});
  const RecordedRun recovered({"run/epochs=1", "strategy/input=free", "strategy/recovery_epochs=1"});
  const std::int64_t neighbours = (recovered.first ? 0 : 1) + (recovered.last ? 0 : 1);
  CHECK(trained.sends.empty());
  CHECK(totalBytes(recovered.sends) == neighbours * samples * width * value_bytes);
  recovered.checkCounters();
}

TEST_CASE("Evaluation: the activations of every test sample once a cut", "[traffic]") {
  SmallRun run(everyone(), smallDeck());
  const MpiRecording recording;
  run.evaluate();
  const bool last = run.grid.group() + 1 == run.grid.plan().groups;
  CHECK(totalBytes(recording.on(run.grid.evaluation(), MpiCall::send)) ==
        (last ? 0 : 130 * width * value_bytes));
  CHECK(run.grid.traffic.between_stages == 0);
}

} // namespace partita::test::traffic
