#include "partita/comm/agree.hpp"
#include "partita/comm/chunks.hpp"
#include "partita/comm/gradient_reducer.hpp"
#include "partita/comm/link.hpp"
#include "partita/comm/message.hpp"
#include "partita/comm/part_exchange.hpp"
#include "partita/comm/rank_places.hpp"
#include "partita/comm/ring_time.hpp"
#include "partita/comm/wait_times.hpp"
#include "partita/core/region.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <numeric>
#include <sched.h>
#include <thread>

#include "pmpi.hpp"
#include "small_run.hpp"
#include "support/catch.hpp"
#include "support/link_scope.hpp"

namespace partita::test::comm {

namespace {

/// The messages that `collectively` throws on this rank; empty if it throws nothing.
std::vector<std::string> agreedMessages(const std::function<void()>& work) {
  try {
    collectively(everyone(), work);
  } catch (const AgreedError& error) {
    return error.messages();
  }
  return {};
}

Matrix filled(std::int64_t rows, std::int64_t columns, Real value) {
  const Matrix matrix = makeMatrix("partita::test::filled", rows, columns);
  Kokkos::deep_copy(matrix, value);
  return matrix;
}

std::vector<Real> hostValues(const Matrix& matrix) {
  const auto host = Kokkos::create_mirror_view_and_copy(HostSpace(), matrix);
  return {host.data(), host.data() + host.size()};
}

/// Binds all threads of all ranks to one core for a while. Collective.
class OnOneCore {
 public:
  OnOneCore() {
    cpu_set_t own;
    PARTITA_REQUIRE(sched_getaffinity(0, sizeof own, &own) == 0, "no cores are known");
    int first = 0;
    while (!CPU_ISSET(first, &own)) ++first;
    first = static_cast<int>(everyone().minimum(std::int64_t{first}));
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      const int thread = std::atoi(task.path().filename().c_str());
      cpu_set_t cores;
      if (sched_getaffinity(thread, sizeof cores, &cores) != 0) continue; // it has just ended
      _before[thread] = cores;
      CPU_ZERO(&cores);
      CPU_SET(first, &cores);
      sched_setaffinity(thread, sizeof cores, &cores);
    }
  }
  ~OnOneCore() {
    for (const auto& [thread, cores] : _before) sched_setaffinity(thread, sizeof cores, &cores);
  }
  OnOneCore(const OnOneCore&) = delete;
  OnOneCore& operator=(const OnOneCore&) = delete;

 private:
  std::map<int, cpu_set_t> _before;
};

} // namespace

TEST_CASE("Ranks take turns if they have more threads than cores", "[comm]") {
  const std::int64_t threads = everyone().total(ownDevice().threads);
  if (ownDevice().index >= 0) return;
  const OnOneCore bound;
  CHECK(isOversubscribed(everyone()) == (threads > 1));
}

/// How long a message takes depends on the machine; what is computed meanwhile does not belong to it.
TEST_CASE("Ranks of a ring that take turns all compute equally often, with and without messages", "[comm]") {
  if (everyone().size() == 1) return;
  std::int64_t computed = 0;
  const double seconds = oversubscribedRingStep(everyone(), everyone().size(), 64, [&] { ++computed; });
  CHECK(seconds > 0.0);
  CHECK(computed > 4);
  CHECK(everyone().maximum(computed) == everyone().minimum(computed));
}

TEST_CASE("Slow links delay messages of parts and the steps of a timed ring", "[comm][parts]") {
  const int ranks = everyone().size();
  if (ranks == 1) return;
  constexpr double latency = 4e-3;
  const LinkScope slow({latency, 0.0, 0.0, 1});
  CHECK(ringStepSeconds(everyone(), ranks, 64) > 0.99 * latency);
  Traffic traffic;
  PartExchange parts(everyone(), MessagePaths().messages, traffic);
  const Vector values("partita::test::values", 3 * static_cast<std::size_t>(ranks));
  const auto host = Kokkos::create_mirror_view(values);
  for (int i = 0; i < 3; ++i) host(3 * everyone().rank() + i) = static_cast<Real>(everyone().rank());
  Kokkos::deep_copy(values, host);
  everyone().barrier();
  const double begin = linkSeconds();
  parts.gather(ExecSpace(), values);
  CHECK(everyone().maximum(linkSeconds() - begin) >
        0.99 * (ranks - 1) * latency); // one message after another
  Kokkos::deep_copy(host, values);
  for (int rank = 0; rank < ranks; ++rank)
    for (int i = 0; i < 3; ++i) CHECK(host(3 * rank + i) == static_cast<Real>(rank));
  CHECK(traffic.part_messages == ranks - 1);
}

TEST_CASE("A mistake found on one rank reaches all", "[comm]") {
  const int rank = everyone().rank(), last = everyone().size() - 1;
  CHECK(agreedMessages([] {}).empty());
  const std::vector<std::string> told{"first line", "second line"};
  CHECK(agreedMessages([&] {
          if (rank == last) throw UserError(told);
        }) == told);
  const auto from_all = agreedMessages([&] { throw UserError("rank " + std::to_string(rank)); });
  CHECK(from_all == std::vector<std::string>{"rank 0"}); // each mistake is reported once
}

TEST_CASE("The values of one rank reach all, however many there are", "[comm]") {
  const int root = everyone().size() - 1;
  for (const std::size_t count : {std::size_t{0}, std::size_t{3}, 2 * chunk_bytes / sizeof(double) + 5}) {
    std::vector<double> expected(count);
    std::iota(expected.begin(), expected.end(), 0.5);
    std::vector<double> values = everyone().rank() == root ? expected : std::vector<double>(2, -1.0);
    broadcast(everyone(), values, root);
    CHECK((values == expected)); // too many to print
  }
  CHECK(broadcast(everyone(), "rank " + std::to_string(everyone().rank()), root) ==
        "rank " + std::to_string(root));
}

TEST_CASE("Ranks of one host read the same time, and those whose clocks differ nearly", "[comm]") {
  const int rank = everyone().rank(), size = everyone().size();
  const SharedClock same(everyone());
  const SharedClock shifted(everyone(), [rank] { return linkSeconds() + 1000.0 * rank; });
  constexpr double error = 0.2; // s; microseconds if no other program uses the cores
  double told = 0.0, told_shifted = -error;
  if (rank > 0) {
    const int from = rank - 1;
    PARTITA_MPI(MPI_Recv(&told, 1, MPI_DOUBLE, from, 0, everyone().get(), MPI_STATUS_IGNORE));
    PARTITA_MPI(MPI_Recv(&told_shifted, 1, MPI_DOUBLE, from, 0, everyone().get(), MPI_STATUS_IGNORE));
  }
  // A halt between the two can only make `now` later.
  const double now_shifted = shifted.seconds(), now = same.seconds();
  CHECK(now > told); // a received time is in the past
  CHECK(now_shifted > told_shifted - error);
  CHECK(now_shifted < now + error);
  if (rank + 1 < size) {
    PARTITA_MPI(MPI_Send(&now, 1, MPI_DOUBLE, rank + 1, 0, everyone().get()));
    PARTITA_MPI(MPI_Send(&now_shifted, 1, MPI_DOUBLE, rank + 1, 0, everyone().get()));
  }
}

TEST_CASE("A stream keeps order and sizes", "[comm]") {
  if (everyone().size() == 1) return;
  const ExecSpace space;
  constexpr std::int64_t count = 30, rows = 9,
                         columns = 700; // both below and above MPI's limit for eager sends
  const Communicator pair = groupOf(2);
  const auto rowsOf = [](std::int64_t i) { return 1 + i % rows; };
  for (const MessagePath path : usablePaths(&MessagePaths::messages)) {
    for (const int depth : {1, 3}) {
      const MpiDelays delays(11);
      const LinkScope links({0.0, 0.0, 1e-4, 11});
      const Channel channel{pair, 1 - pair.rank(), Tag::relay, "matrices", path};
      std::int64_t bytes = 0, expected_bytes = 0;
      if (pair.rank() == 0) {
        Sender sender(channel, rows, columns, depth, bytes);
        for (std::int64_t i = 0; i < count; ++i) {
          sender.send(space, filled(rowsOf(i), columns, static_cast<Real>(i)));
          expected_bytes += rowsOf(i) * columns * static_cast<std::int64_t>(sizeof(Real));
        }
        sender.finish();
        CHECK(bytes == expected_bytes);
      } else {
        Receiver receiver(channel, rows, columns, depth, count);
        for (std::int64_t i = 0; i < count; ++i) {
          const Matrix matrix = receiver.next(space).real();
          const std::vector<Real> expected(static_cast<std::size_t>(rowsOf(i) * columns),
                                           static_cast<Real>(i));
          CHECK(hostValues(matrix) == expected);
        }
        CHECK_THROWS_AS(receiver.next(space), InternalError); // no message left: an error, not a hang
      }
    }
  }
}

TEST_CASE("A message whose copy is complete late leaves while its rank waits for the answer", "[comm]") {
  if (everyone().size() == 1) return;
  const ExecSpace space;
  constexpr std::int64_t count = 20, columns = 50;
  const Communicator pair = groupOf(2);
  const LinkScope links({0.0, 0.0, 1e-4, 5}); // sends are postponed as if a device were still busy
  const bool asks = pair.rank() == 0;
  std::int64_t bytes = 0;
  const MessagePath path = MessagePaths().messages;
  Sender sender({pair, 1 - pair.rank(), asks ? Tag::forward : Tag::backward, "numbers", path}, 1, columns, 2,
                bytes);
  Receiver receiver({pair, 1 - pair.rank(), asks ? Tag::backward : Tag::forward, "numbers", path}, 1, columns,
                    1, count);
  for (std::int64_t i = 0; i < count; ++i) {
    if (asks) sender.send(space, filled(1, columns, static_cast<Real>(i)));
    const Matrix found = receiver.next(space).real();
    CHECK(hostValues(found) == std::vector<Real>(columns, static_cast<Real>(asks ? i + 1 : i)));
    if (!asks) sender.send(space, filled(1, columns, static_cast<Real>(i + 1)));
  }
  sender.finish();
}

TEST_CASE("A count that MPI cannot take is refused, not cut off", "[comm]") {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  CHECK(mpiCount(most) == most);
  CHECK_THROWS_AS(mpiCount(most + 1), InternalError);
  CHECK_THROWS_AS(mpiCount((std::int64_t{1} << 32) + 5), InternalError); // 5 if truncated
}

TEST_CASE("The reducer sums every value once, whatever the buckets", "[comm]") {
  const ExecSpace space;
  const int ranks = everyone().size();
  constexpr std::int64_t size = 1000;
  const Vector gradients("partita::test::gradients", size);
  const MessagePath usual = MessagePaths().reductions;
  const auto variants = {std::pair(1, usual), std::pair(300, MessagePath::staged), std::pair(5000, usual)};
  for (const auto& [bucket, path] : variants) {
    std::int64_t bytes = 0;
    const int before = mpiObjects().communicators;
    GradientReducer reducer(everyone(), gradients, bucket, path, bytes);
    CHECK(mpiObjects().communicators == before + (ranks > 1 ? 1 : 0));
    for (int step = 1; step <= 2; ++step) {
      Kokkos::deep_copy(gradients, static_cast<Real>(step * (everyone().rank() + 1)));
      for (const std::int64_t begin : {700, 250, 0}) {
        reducer.ready(space, begin, begin == 700 ? size : begin == 250 ? 700 : 250);
      }
      reducer.finish(space);
      const auto host = Kokkos::create_mirror_view_and_copy(HostSpace(), gradients);
      const std::vector<Real> found(host.data(), host.data() + size);
      CHECK(found == std::vector<Real>(size, static_cast<Real>(step * ranks * (ranks + 1) / 2)));
    }
    CHECK(bytes == (ranks == 1 ? 0 : 2 * size * static_cast<std::int64_t>(sizeof(Real))));
    if (ranks > 1) CHECK_THROWS_AS(reducer.ready(space, 0, 10), InternalError); // not from the end
  }
}

TEST_CASE("Large buckets go round a ring, whose messages are of equal size", "[comm]") {
  const ExecSpace space;
  const int ranks = everyone().size(), rank = everyone().rank();
  constexpr std::int64_t size = 200'003; // several buckets for each channel
  for (const Precision wire : {Precision::single, Precision::bf16, Precision::fp16}) {
    for (const MessagePath path : usablePaths(&MessagePaths::reductions)) {
      const Vector gradients("partita::test::gradients", size);
      const auto host = Kokkos::create_mirror_view(gradients);
      const auto valueOf = [](std::int64_t i, int from) { return static_cast<Real>(i % 13 + from); };
      std::int64_t bytes = 0;
      GradientReducer reducer(everyone(), gradients, ranks * (8192 / bytesOf(wire)) + 1, path, bytes, wire);
      const MpiDelays delays(7);
      for (int step = 0; step < 2; ++step) {
        for (std::int64_t i = 0; i < size; ++i) host(i) = valueOf(i, rank);
        Kokkos::deep_copy(gradients, host);
        const MpiRecording recording;
        reducer.ready(space, 90'000, size);
        reducer.ready(space, 0, 90'000);
        reducer.finish(space);
        const std::int64_t sent = totalBytes(recording.onDuplicates(everyone(), MpiCall::send)),
                           ring = 2 * (ranks - 1) * size * bytesOf(wire) / ranks,
                           last = ranks == 1
                                      ? 0
                                      : totalBytes(recording.onDuplicates(everyone(), MpiCall::all_reduce));
        CHECK(last < 8192 * ranks); // at most the bucket at the front, which is smaller
        CHECK(std::abs(sent + 2 * (ranks - 1) * last / ranks - ring) < 100 * bytesOf(wire) * ranks);
        Kokkos::deep_copy(host, gradients);
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < size; ++i) {
          Real expected = 0;
          for (int from = 0; from < ranks; ++from) expected += valueOf(i, from);
          if (host(i) != expected) ++wrong; // small whole numbers are exact in any precision
        }
        CHECK(wrong == 0);
      }
      CHECK(bytes == (ranks == 1 ? 0 : 2 * size * bytesOf(wire)));
    }
  }
}

namespace {

/// Like devices, it adds up values where they are, and completes sums one after another. MPI gets a device's
/// values in host memory. Later sums are ready before earlier ones.
class SumsInPlace final : public DeviceSums {
 public:
  std::unique_ptr<RankSum> make() override { return std::make_unique<Sum>(*this); }
  std::vector<TypedSpan> started, begun;
  double waited = 0.0; ///< by this rank for others, until the last sum began

 private:
  template <class Space>
  using Bytes = Kokkos::View<char*, Kokkos::LayoutRight, Space>;

  struct Sum final : RankSum {
    explicit Sum(SumsInPlace& its_sums) : sums(its_sums), operation(Precision::bf16) {}
    void start(const ExecSpace& space, const TypedSpan& values) override {
      fence(space, "partita::test::SumsInPlace");
      polls = 20 - 4 * static_cast<int>(sums.started.size() % 5);
      sums.started.push_back(values);
      span = values;
      own = Bytes<MemSpace>(static_cast<char*>(values.data), static_cast<std::size_t>(values.bytes()));
      host = Kokkos::create_mirror_view_and_copy(HostSpace(), own);
      PARTITA_MPI(MPI_Iallreduce(MPI_IN_PLACE, host.data(), mpiCount(values.size), mpiType(values.precision),
                                 values.precision == Precision::single ? MPI_SUM : operation.get(),
                                 everyone().get(), request.start({WaitedFor::Kind::all, "test"})));
    }
    bool ready() const override { return --polls < 0; }
    void begin(void* work) override {
      CHECK(work == nullptr);
      sums.begun.push_back(span);
      sums.waited = secondsWaited();
    }
    bool advance() override {
      if (!request.test()) return false;
      Kokkos::deep_copy(own, host);
      return true;
    }
    SumsInPlace& sums;
    NumberSum operation;
    TypedSpan span;
    mutable int polls = 0;
    Bytes<MemSpace> own;
    Bytes<HostSpace> host;
    Request request;
  };
};

} // namespace

TEST_CASE("Devices get gradients where they are, or converted in their memory", "[comm]") {
  const ExecSpace space;
  const int ranks = everyone().size();
  constexpr std::int64_t size = 1000;
  const Vector gradients("partita::test::gradients", size);
  for (const Precision wire : {Precision::single, Precision::bf16}) {
    const auto sums = std::make_shared<SumsInPlace>();
    std::int64_t bytes = 0;
    const int before = mpiObjects().communicators;
    GradientReducer reducer(everyone(), gradients, 300, MessagePath::staged, bytes, wire, sums);
    CHECK(mpiObjects().communicators == before); // MPI sums nothing
    for (int step = 1; step <= 2; ++step) {
      Kokkos::deep_copy(gradients, static_cast<Real>(step * (everyone().rank() + 1)));
      reducer.ready(space, 500, size);
      reducer.ready(space, 0, 500);
      reducer.finish(space);
      const auto host = Kokkos::create_mirror_view_and_copy(HostSpace(), gradients);
      const std::vector<Real> found(host.data(), host.data() + size);
      CHECK(found == std::vector<Real>(size, static_cast<Real>(step * ranks * (ranks + 1) / 2)));
    }
    REQUIRE(sums->started.size() == std::size_t(ranks == 1 ? 0 : 2 * 4)); // buckets
    for (const TypedSpan& values : sums->started) CHECK(values.precision == wire);
    REQUIRE(sums->begun.size() == sums->started.size());
    for (std::size_t i = 0; i < sums->begun.size(); ++i) CHECK(sums->begun[i].data == sums->started[i].data);
    if (ranks == 1) continue;
    CHECK((sums->started[3].data == gradients.data()) ==
          (wire == Precision::single)); // the bucket at the front
    CHECK(bytes == 2 * size * bytesOf(wire));
  }
}

TEST_CASE("A rank whose own device still computes a gradient waits for no other rank", "[comm]") {
  if (everyone().size() == 1) return;
  const ExecSpace space;
  const Vector gradients("partita::test::gradients", 1000);
  const auto sums = std::make_shared<SumsInPlace>();
  std::int64_t bytes = 0;
  GradientReducer reducer(everyone(), gradients, 1000, MessagePath::staged, bytes, Precision::single, sums);
  reducer.ready(space, 0, 1000);
  CHECK(sums->begun.empty()); // the device has not come so far
  const double before = secondsWaited();
  reducer.finish(space);
  REQUIRE(sums->begun.size() == 1);
  CHECK(sums->waited == before);
}

TEST_CASE("Sums that are held back follow from the front", "[comm]") {
  using Range = std::pair<std::int64_t, std::int64_t>;
  const ExecSpace space;
  const int ranks = everyone().size();
  const Vector gradients("partita::test::gradients", 1000);
  std::int64_t bytes = 0;
  GradientReducer reducer(everyone(), gradients, 100, MessagePaths().reductions, bytes);
  std::vector<Range> told;
  const auto arrive = [&](std::int64_t begin, std::int64_t end) {
    reducer.arrive(space, begin, end, [&](std::int64_t a, std::int64_t b) { told.emplace_back(a, b); });
  };
  const std::vector<Range> begun{{900, 1000}, {800, 900}, {600, 700}, {500, 600}, {300, 400},
                                 {200, 300},  {0, 100},   {100, 200}, {400, 500}, {700, 800}};
  const auto first = [&](std::size_t count) {
    return std::vector<Range>(begun.begin(),
                              begun.begin() + static_cast<std::ptrdiff_t>(ranks > 1 ? count : 0));
  };
  for (int step = 1; step <= 3; ++step) {
    Kokkos::deep_copy(gradients, static_cast<Real>(step * (everyone().rank() + 1)));
    reducer.wantFromFront(step < 3);
    told.clear();
    reducer.ready(space, 333, 1000);
    arrive(0, 1000);
    CHECK(told.empty()); // the step has not got that far
    reducer.ready(space, 0, 333);
    if (step < 3) {
      arrive(0, 50);
      CHECK(told == first(7));
      arrive(150, 300); // the preceding one has arrived
      CHECK(told == first(8));
      arrive(0, 300);
      CHECK(told == first(8));
    }
    arrive(0, 1000);
    CHECK(told.size() == first(10).size());
    if (step < 3) CHECK(told == first(10));
    if (step == 3) CHECK(std::is_sorted(told.rbegin(), told.rend()));
    const auto host = Kokkos::create_mirror_view_and_copy(HostSpace(), gradients);
    CHECK(std::vector<Real>(host.data(), host.data() + 1000) ==
          std::vector<Real>(1000, static_cast<Real>(ranks == 1 ? step : step * ranks * (ranks + 1) / 2)));
  }
}

TEST_CASE("The grid names neighbours and replicas", "[comm]") {
  const int ranks = everyone().size();
  for (const int replicas : {1, 2}) {
    if (ranks % replicas != 0) continue;
    const SmallRun run(everyone(), smallDeck({"strategy/replicas=" + std::to_string(replicas)}));
    const Grid& grid = run.grid;
    CHECK(grid.replicas() == replicas);
    CHECK(grid.chain().size() * replicas == ranks);
    CHECK(grid.peers().size() == replicas);
    CHECK(grid.group() + grid.replica() * grid.chain().size() == everyone().rank());
    std::vector<double> owners(4, 0.0);
    for (int stage = grid.firstStage(); stage < grid.endStage(); ++stage) {
      CHECK(grid.owns(stage));
      owners[static_cast<std::size_t>(stage)] += 1.0;
    }
    grid.world().sum(owners);
    CHECK(owners == std::vector<double>(4, static_cast<double>(replicas)));
  }
}

/// The number of ranks on each axis of a grid, and of those that own no stage.
struct Division {
  int groups, replicas, parts, others;
};

TEST_CASE("Every axis has its communicator, and ranks without a stage are alone", "[comm]") {
  const int ranks = everyone().size();
  const Overrides deck{"strategy/kind=pipeline", "strategy/stages=2", "strategy/microbatches=2"};
  SmallRun alone(groupOf(1), smallDeck(deck));
  const std::string untrained = alone.hash();
  const Evaluation expected = alone.evaluate();
  for (const Division& d :
       {Division{1, 1, 1, 0}, Division{2, 1, 1, 0}, Division{1, 1, 2, 0}, Division{1, 1, 1, 1},
        Division{2, 1, 2, 0}, Division{1, 2, 2, 0}, Division{2, 2, 1, 0}, Division{1, 2, 1, 2},
        Division{2, 1, 1, 2}, Division{1, 1, 4, 0}, Division{1, 3, 1, 1}}) {
    if (d.groups * d.replicas * d.parts + d.others != ranks) continue;
    INFO(d.groups << " groups, " << d.replicas << " replicas, " << d.parts << " parts, " << d.others);
    SmallRun run(everyone(), smallDeck(deck), [&](const Partition& partition, int count) {
      GridPlan plan = dealStages(partition, count - d.others, d.replicas, d.parts);
      plan.ranks = count;
      return plan;
    });
    const Grid& grid = run.grid;
    const bool owns = everyone().rank() < ranks - d.others;
    CHECK(grid.ownsStages() == owns);
    CHECK(grid.along(Axis::stage).size() == (owns ? d.groups : 1));
    CHECK(grid.along(Axis::replica).size() == (owns ? d.replicas : 1));
    CHECK(grid.along(Axis::part).size() == (owns ? d.parts : 1));
    CHECK((grid.endStage() > grid.firstStage()) == owns);
    const auto apart = [&](Axis axis) {
      return grid.along(axis).worldRank(1) - grid.along(axis).worldRank(0);
    };
    if (owns && d.parts > 1) CHECK(apart(Axis::part) == d.groups);
    if (owns && d.replicas > 1) CHECK(apart(Axis::replica) == d.groups * d.parts);
    if (owns) CHECK(grid.plan().rankAt(grid.group(), grid.replica(), grid.part()) == everyone().rank());
    CHECK(everyone().total(grid.speaks() ? 1 : 0) == d.groups);
    CHECK(run.hash() == untrained);
    const Evaluation found = run.evaluate();
    CHECK(found.accuracy == expected.accuracy);
    CHECK(found.loss.back() == Approx(expected.loss.back()).epsilon(1e-6)); // batches of other sizes
    if (d.others > 0) continue; // a separate strategy would use them
    CHECK(run.train().hash() ==
          trainedHash(d.groups * d.replicas,
                      deck + Overrides{"strategy/replicas=" + std::to_string(d.replicas)}));
  }
}

TEST_CASE("The time that a rank has waited is the sum over what it waited for", "[comm]") {
  const double before = secondsWaited();
  for (const char* what : {"one test", "another test"}) {
    Waiting waiting({WaitedFor::Kind::any, what});
    waiting.sleep(0.02);
    waiting.over();
  }
  const auto times = waitTimes();
  CHECK(times.at("one test") >= 0.02);
  CHECK(secondsWaited() - before == Approx(times.at("one test") + times.at("another test")));
}

TEST_CASE("A wait is a phase of its own, whichever phase it interrupts", "[comm]") {
  const auto secondsOf = [](Phase phase) { return PhaseTimes::seconds()[static_cast<std::size_t>(phase)]; };
  PhaseTimes::enable(true);
  PhaseTimes::reset();
  const auto start = Clock::now();
  const double before = secondsWaited();
  {
    const Region region(ExecSpace(), "partita::test::send", Phase::communication);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    Waiting waiting({WaitedFor::Kind::any, "a test of phases"});
    waiting.sleep(0.02);
    waiting.over();
  }
  PhaseTimes::enable(false);
  CHECK(secondsOf(Phase::waiting) == Approx(secondsWaited() - before));
  CHECK(secondsOf(Phase::waiting) >= 0.02);
  CHECK(secondsOf(Phase::communication) >= 0.005);
  CHECK(secondsOf(Phase::waiting) + secondsOf(Phase::communication) <= secondsSince(start));
}

} // namespace partita::test::comm
