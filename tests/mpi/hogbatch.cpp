#include "partita/strategy/hogbatch/hogbatch.hpp"

#include "partita/comm/agree.hpp"
#include "partita/strategy/hogbatch/departure.hpp"
#include "partita/strategy/hogbatch/order_book.hpp"

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <unistd.h>

#include "pmpi.hpp"
#include "small_run.hpp"
#include "support/catch.hpp"
#include "support/file_size_limit.hpp"

namespace partita::test::hogbatch {

/// Workers of unequal speed that train one model.

namespace {

const Overrides plain_sgd{"optimiser/kind=sgd", "optimiser/momentum=0", "optimiser/learning_rate=0.05",
                          "optimiser/schedule=constant", "strategy/stages=1"};

Overrides deckOf(const Overrides& more) {
  return plain_sgd + Overrides{"strategy/kind=hogbatch", "strategy/rule=fixed", "strategy/shared_workers=0"} +
         more;
}

double relativeDifference(const std::vector<Real>& a, const std::vector<Real>& b) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2.0);
    norm += std::pow(static_cast<double>(b[i]), 2.0);
  }
  return std::sqrt(difference / norm);
}

/// Trains. Returns the parameters of the first worker, on every rank.
std::vector<Real> trainedParameters(SmallRun& run) {
  run.train();
  std::vector<Real> values(static_cast<std::size_t>(run.partition.stages.front().storedValues()));
  if (run.grid.ownsStages() && run.grid.replica() == 0) values = run.ownParameters();
  MPI_Bcast(values.data(), mpiCount(static_cast<std::int64_t>(values.size())), mpiType<Real>(),
            run.grid.plan().first_rank, run.grid.world().get());
  return values;
}

/// A file that the first of these ranks writes.
std::string temporaryFile(const Communicator& ranks, const std::string& name) {
  const auto folder = std::filesystem::temp_directory_path();
  return broadcast(ranks, (folder / (name + std::to_string(getpid()) + ".csv")).string());
}

/// Checks that the batches of each epoch contain each sample once.
void checkExactlyOnce(const std::vector<Decision>& decisions, std::int64_t samples, std::int64_t epochs) {
  std::vector<std::int64_t> seen(static_cast<std::size_t>(samples * epochs), 0);
  for (const Decision& decision : decisions) {
    REQUIRE(decision.epoch < epochs);
    REQUIRE(decision.first + decision.count <= samples);
    for (std::int64_t i = 0; i < decision.count; ++i)
      ++seen[static_cast<std::size_t>(decision.epoch * samples + decision.first + i)];
  }
  CHECK(std::count(seen.begin(), seen.end(), 1) == samples * epochs);
}

struct Logged {
  std::vector<Decision> decisions; ///< on rank 0
  HogbatchState state;             ///< on rank 0
  std::string hash;
  std::string file;
};

Logged loggedRun(const Communicator& ranks, const Overrides& overrides) {
  Logged logged;
  logged.file = temporaryFile(ranks, "partita-decisions-");
  SmallRun run(ranks, smallDeck(deckOf(overrides)));
  run.decisions_file = logged.file;
  run.train();
  logged.hash = run.hash();
  logged.state = run.workers;
  if (ranks.rank() == 0) logged.decisions = readDecisions(logged.file);
  return logged;
}

/// Lets time pass on the processor: a sleep would last far longer than a change of the model.
void spinFor(std::chrono::nanoseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

/// Only ranks of host builds can be shared workers.
bool hasSharedWorkers() {
  return device_is_host && everyone().size() > 1;
}

} // namespace

TEST_CASE("One worker that updates in place is serial training, bit for bit", "[hogbatch]") {
  if (!hasSharedWorkers()) return;
  const std::string serial = trainedHash(1, plain_sgd + Overrides{"strategy/kind=joint"});
  for (const char* update : {"strategy/update=relaxed", "strategy/update=plain"})
    CHECK(trainedHash(2, deckOf({"strategy/shared_workers=1", update})) == serial);
}

TEST_CASE("Weight decay is that of serial training up to rounding", "[hogbatch]") {
  if (!hasSharedWorkers()) return;
  const Overrides decay{"optimiser/weight_decay=0.01"};
  SmallRun serial(groupOf(1), smallDeck(plain_sgd + decay + Overrides{"strategy/kind=joint"}));
  SmallRun shared(groupOf(2), smallDeck(deckOf(decay + Overrides{"strategy/shared_workers=1"})));
  CHECK(relativeDifference(trainedParameters(shared), trainedParameters(serial)) < 1e-6);
}

TEST_CASE("One replica worker is serial training up to rounding", "[hogbatch]") {
  if (everyone().size() < 2) return;
  SmallRun serial(groupOf(1), smallDeck(plain_sgd + Overrides{"strategy/kind=joint"}));
  const std::vector<Real> expected = trainedParameters(serial);
  const double tolerance = sizeof(Real) == sizeof(double) ? 1e-12 : 1e-6;
  for (const char* merge : {"strategy/merge=delta", "strategy/merge=overwrite"}) {
    INFO(merge);
    SmallRun replica(groupOf(2), smallDeck(deckOf({merge})));
    CHECK(relativeDifference(trainedParameters(replica), expected) <= tolerance);
  }
  SmallRun average(groupOf(2), smallDeck(deckOf({"strategy/merge=average"})));
  CHECK(relativeDifference(trainedParameters(average), expected) > 1e-3); // takes half steps
}

TEST_CASE("Exact updates conserve every change; overwriting reports what it loses", "[hogbatch]") {
  constexpr std::int64_t values = 777, rounds = 200;
  const Communicator& world = everyone();
  for (const bool overwrite : {false, true}) {
    const SharedWindow window(world, SharedModel::bytes(values, world.size()));
    const SharedModel model(window, values, world.size());
    std::vector<Real> own(values), gradient(values);
    std::int64_t overwritten = 0;
    world.barrier();
    for (std::int64_t round = 0; round < rounds; ++round) {
      const std::int64_t read = model.read(own.data());
      for (std::int64_t i = 0; i < values; ++i)
        gradient[static_cast<std::size_t>(i)] = static_cast<Real>((i + round * (world.rank() + 1)) % 7 - 3);
      ModelChange change;
      change.gradient = gradient.data();
      change.parameters = round % 2 == 0 || overwrite ? own.data() : nullptr; // replicas and shared workers
      change.rate = 1.0;
      change.merge = overwrite ? ReplicaMerge::overwrite : ReplicaMerge::delta;
      change.update = SharedUpdate::atomic;
      change.rank = world.rank();
      std::this_thread::yield();
      overwritten += model.apply(change, read).overwritten;
    }
    world.barrier();
    CHECK(model.version() == rounds * world.size());
    double missing = 0.0;
    for (std::int64_t i = 0; i < values; ++i) {
      double sum = 0.0;
      for (int rank = 0; rank < world.size(); ++rank)
        for (std::int64_t round = 0; round < rounds; ++round)
          sum -= static_cast<double>((i + round * (rank + 1)) % 7 - 3);
      missing += std::fabs(sum - static_cast<double>(model.values()[i]));
    }
    const std::int64_t all_overwritten = world.total(overwritten);
    if (overwrite && world.size() > 1) {
      // The reverse does not hold: who reads between a change and its number counts it as overwritten.
      CHECK((missing == 0.0 || all_overwritten > 0));
    } else {
      CHECK(missing == 0.0);
      CHECK(all_overwritten == 0);
    }
    world.barrier();
  }
}

TEST_CASE("A worker that was given up before it changed the model never changes it", "[hogbatch]") {
  constexpr std::int64_t values = 33;
  const Communicator& world = everyone();
  const SharedWindow window(world, SharedModel::bytes(values, world.size()));
  const SharedModel model(window, values, world.size());
  const std::vector<Real> gradient(values, Real(1));
  ModelChange change;
  change.gradient = gradient.data();
  change.rate = 1.0;
  change.rank = world.rank();
  change.number = 7;
  world.barrier();
  CHECK(model.apply(change, 0).version >= 0);
  world.barrier();
  if (world.rank() == 0) { // gives up all ranks: the even ones after batch 7, the others before batch 8
    for (int rank = 0; rank < world.size(); ++rank) {
      const SharedModel::Progress progress = model.giveUp(rank, 7 + rank % 2);
      CHECK(progress.begun == (rank % 2 == 0));
      CHECK(progress.ended == (rank % 2 == 0));
      CHECK((progress.applied.version >= 0) == (rank % 2 == 0));
    }
  }
  world.barrier();
  const Real before = model.values()[0];
  world.barrier();
  change.number = 8;
  if (world.rank() % 2 == 1) CHECK(model.apply(change, model.version()).version < 0);
  world.barrier();
  CHECK(model.version() == world.size());
  CHECK(model.values()[0] == before);
}

TEST_CASE("A worker is not late because the whole job was suspended", "[hogbatch]") {
  Mailbox mailbox(everyone());
  BatchDispatcher dispatcher(100, 1);
  HogbatchState state;
  state.workers.resize(1);
  state.workers.front().rank = mailbox.rank(); // each rank has a book of its own
  double seconds = 0.0;
  OrderBook orders(mailbox, dispatcher, state, 1, WatchedTime([&] { return seconds; }));
  orders.give(0, *dispatcher.next(0, 10), WorkOrder());
  orders.send(0);
  CHECK(mailbox.take(Tag::order).has_value());
  constexpr double between_looks = 0.25;
  const auto waitedAfter = [&](int looks) {
    for (int i = 0; i < looks; ++i, orders.look()) seconds += between_looks;
    return orders.waited(0);
  };
  CHECK(waitedAfter(8) == 8.0 * between_looks);
  seconds += 1000.0;
  const double after = orders.waited(0);
  CHECK(after > 8.0 * between_looks);
  CHECK(after < 5.0);                                     // the shortest time after which a worker is late
  CHECK(waitedAfter(40) == after + 40.0 * between_looks); // a worker that hangs is noticed nevertheless
  CHECK(orders.secondsToEnd() == orders.waited(0));       // before its first answer
  constexpr double batch = 5.0;
  orders.answered(0, batch);
  CHECK(orders[0].longest == batch);
  orders.end(0);
  CHECK(orders.secondsToEnd() == batch);
  for (int i = 0; i < 2; ++i) orders.give(0, *dispatcher.next(0, 10), WorkOrder()); // not sent yet
  CHECK(orders.secondsToEnd() == 2.0 * batch);
  orders.answered(0, 1000.0 + batch); // this one was suspended
  CHECK(orders[0].longest == orders.waited(0));
  mailbox.close();
}

TEST_CASE("A change counts as begun if and only if the model has it", "[hogbatch]") {
  constexpr std::int64_t values = 33;
  const Communicator& world = everyone();
  if (world.size() < 2) return;
  const std::vector<Real> gradient(values, Real(1));
  ModelChange change;
  change.gradient = gradient.data();
  change.rate = 1.0;
  change.rank = 1;
  change.number = 7;
  const SharedWindow window(world, SharedModel::bytes(values, world.size()));
  for (int round = 0; round < 200; ++round) { // rank 0 gives up rank 1 while that changes the model
    if (world.rank() == 0) std::memset(window.data(), 0, static_cast<std::size_t>(window.bytes()));
    const SharedModel model(window, values, world.size());
    world.barrier();
    SharedModel::Progress progress;
    Applied applied;
    const int first = round < 2 ? round : -1; // the rank that surely comes before the other
    if (first >= 0 && world.rank() != first) world.barrier();
    spinFor(std::chrono::nanoseconds{300} * (world.rank() == 0 ? round % 10 : round / 10 % 10));
    if (world.rank() == 0) progress = model.giveUp(1, change.number);
    if (world.rank() == 1) applied = model.apply(change, 0);
    if (world.rank() == first) world.barrier();
    world.barrier();
    const bool changed = world.maximum(std::int64_t{applied.version >= 0}) > 0,
               begun = world.maximum(std::int64_t{progress.begun}) > 0;
    CHECK(changed == begun);
    if (first >= 0) CHECK(changed == (first == 1));
    CHECK(model.version() == (changed ? 1 : 0));
    CHECK(model.values()[values - 1] == Real(changed ? -1 : 0));
    world.barrier();
  }
}

TEST_CASE("Each sample is in one batch per epoch, whatever the workers are", "[hogbatch]") {
  const int ranks = everyone().size();
  if (ranks < 2) return;
  for (const char* rule : {"fixed", "adaptive", "proportional", "synchronous"}) {
    for (int shared = 0; shared < (device_is_host ? ranks : 1); ++shared) {
      INFO(rule << ", " << shared << " shared workers");
      const Logged logged =
          loggedRun(everyone(),
                    {std::string("strategy/rule=") + rule,
                     "strategy/shared_workers=" + std::to_string(shared), "data/samples=599",
                     "training/batch=37", "strategy/lower=5", "strategy/upper=64", "strategy/slowdown=[3]"});
      if (everyone().rank() > 0) continue;
      checkExactlyOnce(logged.decisions, 599, 2);
      std::int64_t examples = 0, updates = 0;
      for (const WorkerCounts& worker : logged.state.workers) {
        examples += worker.examples;
        updates += worker.updates;
        CHECK(worker.busy_seconds > 0.0);
      }
      CHECK(examples == 2 * 599);
      CHECK(updates == static_cast<std::int64_t>(logged.decisions.size()));
      CHECK(logged.state.version == updates);
    }
  }
}

TEST_CASE("A log for which the disk has no room does not end the run", "[hogbatch]") {
  if (everyone().size() < 2) return;
  SmallRun run(everyone(), smallDeck(deckOf({})));
  run.decisions_file = temporaryFile(everyone(), "partita-full-");
  {
    std::optional<FileSizeLimit> full;
    if (everyone().rank() == 0) full.emplace(300); // a few rows
    run.train();
  }
  CHECK_FALSE(run.hash().empty());
  if (everyone().rank() > 0) return;
  CHECK(static_cast<std::int64_t>(readDecisions(run.decisions_file).size()) < run.workers.version);
  std::filesystem::remove(run.decisions_file);
}

TEST_CASE("Each sample is in one batch if workers get many short batches in advance", "[hogbatch]") {
  if (!hasSharedWorkers()) return;
  const Logged logged =
      loggedRun(everyone(), {"strategy/shared_workers=1", "training/batch=1", "strategy/lower=1",
                             "data/samples=301", "strategy/slowdown=[9]"});
  if (everyone().rank() > 0) return;
  checkExactlyOnce(logged.decisions, 301, 2);
  CHECK(logged.decisions.size() == 602);
}

TEST_CASE("Orders and results of short batches share messages", "[hogbatch][speed]") {
  if (!hasSharedWorkers()) return;
  SmallRun run(everyone(), smallDeck(deckOf({"strategy/shared_workers=1", "training/batch=1"})));
  const MpiRecording recording;
  run.train();
  const std::vector<MpiRecord> calls = recording.all();
  const auto sent = std::count_if(calls.begin(), calls.end(),
                                  [](const MpiRecord& record) { return record.call == MpiCall::send; });
  if (everyone().rank() == 0) CHECK(2 * sent < run.workers.batches); // orders
  const std::int64_t all_sent = everyone().total(static_cast<std::int64_t>(sent)),
                     batches = everyone().total(run.workers.batches);
  CHECK(all_sent < batches); // also results
}

TEST_CASE("A number of steps ends a run in the middle of an epoch", "[hogbatch]") {
  if (!hasSharedWorkers()) return;
  const Logged logged = loggedRun(everyone(), {"run/steps=20", "strategy/shared_workers=1"});
  if (everyone().rank() > 0) return;
  std::int64_t examples = 0;
  for (const Decision& decision : logged.decisions) examples += decision.count;
  CHECK(examples == 600 + 5 * 40);
}

TEST_CASE("Steps of unequal parts have the same bits in each run, and are those of one rank", "[hogbatch]") {
  const int ranks = everyone().size();
  if (ranks < 2) return;
  const Overrides deck{"strategy/rule=synchronous", "strategy/speeds=[1, 3]", "optimiser/weight_decay=0.01"};
  const Overrides fitting = ranks > 2 ? deck : deck + Overrides{"strategy/speeds=[2]"};
  for (const char* shared : {"strategy/shared_workers=0", "strategy/shared_workers=1"}) {
    if (shared != std::string("strategy/shared_workers=0") && !device_is_host) continue;
    SmallRun first(everyone(), smallDeck(deckOf(fitting + Overrides{shared})));
    SmallRun second(everyone(), smallDeck(deckOf(fitting + Overrides{shared})));
    SmallRun serial(groupOf(1),
                    smallDeck(plain_sgd + Overrides{"strategy/kind=joint", "optimiser/weight_decay=0.01"}));
    const std::vector<Real> values = trainedParameters(first);
    CHECK(trainedParameters(second) == values);
    CHECK(relativeDifference(values, trainedParameters(serial)) < 1e-5);
    if (everyone().rank() == 0 && ranks > 2)
      CHECK(first.workers.workers[1].batch_first == 3 * first.workers.workers[0].batch_first);
    for (const WorkerCounts& worker : first.workers.workers) CHECK(worker.staleness_max == 0);
  }
}

TEST_CASE("In steps of unequal parts dropout leaves out what it does on one rank", "[hogbatch]") {
  const int ranks = everyone().size();
  if (ranks < 2) return;
  const Overrides dropout{
      "network/layers=[{type=\"dense\", units=12, activation=\"relu\"}, {type=\"dropout\", "
      "rate=0.5}, {type=\"dense\"}]"};
  SmallRun together(everyone(), smallDeck(deckOf(dropout + Overrides{"strategy/rule=synchronous"})));
  SmallRun serial(groupOf(1), smallDeck(plain_sgd + dropout + Overrides{"strategy/kind=joint"}));
  CHECK(relativeDifference(trainedParameters(together), trainedParameters(serial)) < 1e-5);
}

TEST_CASE("A run is repeated bit for bit on one rank from its decisions", "[hogbatch]") {
  const int ranks = everyone().size();
  if (ranks < 2) return;
  for (const Overrides& more :
       {Overrides{"strategy/rule=adaptive", "strategy/shared_workers=1"},
        Overrides{"strategy/merge=overwrite", "strategy/staleness=scale"},
        Overrides{"strategy/merge=average", "strategy/shared_workers=1", "optimiser/weight_decay=0.01"},
        Overrides{"strategy/staleness=ringmaster", "strategy/staleness_bound=1", "strategy/update=atomic"},
        Overrides{"strategy/rule=synchronous"}}) {
    if (!device_is_host && std::count(more.begin(), more.end(), "strategy/shared_workers=1") > 0) continue;
    INFO(more.front());
    const Logged logged = loggedRun(
        everyone(), more + Overrides{"run/decisions=true", "training/batch=39", "strategy/slowdown=[2]"});
    RunConfig deck = smallDeck(deckOf(more + Overrides{"training/batch=39"}));
    deck.strategy.hogbatch.replay = logged.file;
    everyone().barrier();
    SmallRun replay(groupOf(1), deck);
    CHECK(replay.train().hash() == logged.hash);
  }
}

TEST_CASE("Equal workers find the model at most as many updates ahead as there are others", "[hogbatch]") {
  const int workers = everyone().size() - 1;
  if (workers < 2) return;
  // Batches take many milliseconds. With few cores, shorter ones would end before the system lets others run.
  const Logged logged = loggedRun(everyone(), {"run/epochs=4", "strategy/slowdown=[300, 300, 300]"});
  if (everyone().rank() > 0) return;
  double sum = 0.0, batches = 0.0;
  for (const WorkerCounts& worker : logged.state.workers) {
    sum += worker.staleness_sum;
    batches += static_cast<double>(worker.batches);
  }
  // With a core each, the mean is workers - 1; with fewer cores a worker may end several batches in a row.
  CHECK(sum / batches <= workers - 1 + 0.5);
  CHECK(sum / batches > 0.2);
}

TEST_CASE("Updates that are too old are dropped, and counted", "[hogbatch]") {
  if (everyone().size() < 4) return;
  const Logged logged = loggedRun(everyone(), {"strategy/staleness=ringmaster", "strategy/staleness_bound=0",
                                               "strategy/slowdown=[300, 300, 300]"});
  if (everyone().rank() > 0) return;
  std::int64_t updates = 0, dropped = 0;
  for (const WorkerCounts& worker : logged.state.workers) {
    updates += worker.updates;
    dropped += worker.dropped;
  }
  CHECK(dropped > 0);
  CHECK(updates + dropped == static_cast<std::int64_t>(logged.decisions.size()));
  checkExactlyOnce(logged.decisions, 600, 2);
}

TEST_CASE("The state of the workers is a list of numbers and back", "[hogbatch]") {
  HogbatchState state;
  state.epoch = 3;
  state.cursor = 17;
  state.version = 1234567890123;
  state.groups.resize(2);
  state.groups[1].size = 64;
  state.groups[1].timed_seconds = 0.25;
  state.workers.resize(3);
  state.workers[2].staleness_max = 9;
  state.reached = {{0.5, 1.25}, {0.25, 2.5}};
  const std::vector<double> numbers = state.numbers();
  const auto found = HogbatchState::from(numbers, 2, 3);
  REQUIRE(found);
  CHECK(found->numbers() == numbers);
  CHECK(found->version == state.version);
  REQUIRE(found->reached.size() == 2);
  CHECK(found->reached[1].loss == 0.25);
  CHECK_FALSE(HogbatchState::from(numbers, 3, 2));
  CHECK_FALSE(HogbatchState::from({}, 2, 3));
}

TEST_CASE("Who is left after a loss has the groups, counts and unequal speeds of before", "[hogbatch]") {
  const Communicator& world = everyone();
  if (world.size() < 4) return; // two shared workers and a replica
  StrategySection strategy;
  strategy.hogbatch.shared_workers = 2;
  strategy.hogbatch.slowdown = {2, 3, 5};
  HogbatchState before;
  before.groups.resize(2);
  before.groups[1].size = 64;
  before.workers.resize(3);
  for (int worker = 0; worker < 3; ++worker)
    before.workers[static_cast<std::size_t>(worker)].updates = worker;
  const auto without = [&](const std::vector<int>& lost) {
    MeetingState state;
    state.numbers = before.numbers();
    leaveWorkersOut(lost, strategy, world, state);
    CHECK(state.lost.size() == lost.size());
    return HogbatchState::from(state.numbers).value();
  };
  const HogbatchState one = without({2});
  REQUIRE(one.groups.size() == 2);
  REQUIRE(one.workers.size() == 2);
  CHECK(one.workers[1].updates == 2);
  CHECK(withoutWorkers(strategy, {2}).hogbatch.slowdown == std::vector<std::int64_t>{2, 5});

  const HogbatchState both = without({1, 2});
  REQUIRE(both.groups.size() == 1);
  CHECK(both.groups[0].size == 64);
  CHECK(both.workers.size() == 1);
  CHECK(withoutWorkers(strategy, {1, 2}).hogbatch.shared_workers == 0);

  const HogbatchState replica = without({3});
  REQUIRE(replica.groups.size() == 1);
}

} // namespace partita::test::hogbatch
