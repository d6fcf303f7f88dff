#include "partita/plan/hogbatch/batch_dispatcher.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "hogbatch_mixes.hpp"
#include "support/catch.hpp"

namespace partita::test::plan_hogbatch_dispatcher {

namespace {

/// Workers that get, end and lose batches in a random order, and now and then a restart where none has any.
/// Counts how often each example was in a batch that ended.
class RandomEpoch {
 public:
  explicit RandomEpoch(unsigned seed)
      : _draws(seed), _examples(_draws.whole(1, 400)), _workers(static_cast<std::size_t>(_draws.whole(1, 7))),
        _dispatcher(_examples, _workers), _alive(_workers, true), _seen(static_cast<std::size_t>(_examples)) {
  }

  const std::vector<int>& play() {
    std::int64_t moves = 0;
    while (!_dispatcher.epochDone()) {
      move();
      if (++moves > 100000) throw std::runtime_error("the epoch does not end");
    }
    return _seen;
  }
  BatchDispatcher& dispatcher() { return _dispatcher; }
  std::size_t workers() const { return _workers; }

 private:
  void move() {
    const auto worker = static_cast<std::size_t>(_draws.whole(0, static_cast<std::int64_t>(_workers) - 1));
    if (!_alive[worker]) return;
    const std::deque<ExampleRange> own = _dispatcher.outstanding(worker);
    const std::int64_t kind = _draws.whole(0, 99);
    if (kind < 3 && std::count(_alive.begin(), _alive.end(), true) > 1) {
      _alive[worker] = false;
      _dispatcher.giveBack(worker);
    } else if (kind < 5) {
      restart();
    } else if (own.empty() || (own.size() < 3 && kind < 30)) {
      take(worker);
    } else if (kind < 70) {
      for (std::int64_t i = 0; i < own.front().count; ++i)
        ++_seen[static_cast<std::size_t>(own.front().first + i)];
      _dispatcher.finished(worker);
    }
  }

  void take(std::size_t worker) {
    const std::int64_t wanted = _draws.whole(1, 60), left = _dispatcher.remaining();
    const auto batch = _dispatcher.next(worker, wanted);
    CHECK(batch.has_value() == (left > 0));
    if (!batch) return;
    CHECK(batch->count >= 1);
    CHECK(batch->count <= wanted);
    CHECK(_dispatcher.remaining() == left - batch->count);
  }

  void restart() {
    const std::int64_t ended = _dispatcher.ended();
    if (ended + _dispatcher.remaining() != _examples || _dispatcher.hasGivenBack()) return;
    _dispatcher = BatchDispatcher(_examples, _workers);
    _dispatcher.startAt(ended);
  }

  Draws _draws;
  std::int64_t _examples;
  std::size_t _workers;
  BatchDispatcher _dispatcher;
  std::vector<bool> _alive;
  std::vector<int> _seen;
};

} // namespace

TEST_CASE("each example is in one batch, whatever the workers do") {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    RandomEpoch epoch(seed);
    const std::vector<int>& seen = epoch.play();
    CAPTURE(seed);
    CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
    CHECK(epoch.dispatcher().drained());
    for (std::size_t worker = 0; worker < epoch.workers(); ++worker)
      CHECK(epoch.dispatcher().outstanding(worker).empty());
    CHECK_FALSE(epoch.dispatcher().next(0, 1).has_value());
    epoch.dispatcher().startEpoch();
    CHECK(epoch.dispatcher().remaining() == static_cast<std::int64_t>(seen.size()));
  }
}

TEST_CASE("the last batch of an epoch is short") {
  BatchDispatcher dispatcher(10, 2);
  CHECK(dispatcher.next(0, 4) == ExampleRange{0, 4});
  CHECK(dispatcher.next(1, 4) == ExampleRange{4, 4});
  dispatcher.finished(1);
  CHECK(dispatcher.next(1, 4) == ExampleRange{8, 2});
  CHECK(dispatcher.drained());
  CHECK_FALSE(dispatcher.epochDone());
  dispatcher.finished(0);
  CHECK_FALSE(dispatcher.next(0, 4).has_value());
  dispatcher.finished(1);
  CHECK(dispatcher.epochDone());
}

TEST_CASE("the batch of a lost worker goes to others, in parts if these want less") {
  BatchDispatcher dispatcher(20, 3);
  dispatcher.next(0, 10);
  dispatcher.next(1, 10);
  CHECK_FALSE(dispatcher.next(2, 5).has_value()); // drained, but some come back
  dispatcher.giveBack(0);
  dispatcher.giveBack(0); // has none by now
  CHECK(dispatcher.remaining() == 10);
  CHECK(dispatcher.next(2, 7) == ExampleRange{0, 7});
  dispatcher.finished(1);
  CHECK(dispatcher.next(1, 7) == ExampleRange{7, 3});
  dispatcher.finished(1);
  dispatcher.finished(2);
  CHECK(dispatcher.epochDone());
}

TEST_CASE("a worker ends its batches in the order in which it got them") {
  BatchDispatcher dispatcher(20, 2);
  dispatcher.next(0, 6);
  dispatcher.next(0, 5);
  dispatcher.next(1, 4);
  CHECK(dispatcher.outstanding(0) == std::deque<ExampleRange>{{0, 6}, {6, 5}});
  CHECK(dispatcher.outstanding(1) == std::deque<ExampleRange>{{11, 4}});
  dispatcher.finished(0);
  CHECK(dispatcher.outstanding(0) == std::deque<ExampleRange>{{6, 5}});
  CHECK(dispatcher.ended() == 6);
  dispatcher.next(0, 3);
  dispatcher.giveBack(0);
  CHECK(dispatcher.remaining() == 5 + 3 + 2);
  CHECK(dispatcher.next(1, 9) == ExampleRange{6, 5});
  CHECK(dispatcher.next(1, 9) == ExampleRange{15, 3});
}

TEST_CASE("an epoch continues after the examples that are done, with any workers") {
  BatchDispatcher dispatcher(20, 5);
  dispatcher.next(0, 6);
  dispatcher.startAt(12);
  CHECK(dispatcher.outstanding(0).empty());
  CHECK(dispatcher.ended() == 12);
  CHECK(dispatcher.next(4, 5) == ExampleRange{12, 5});
  CHECK(dispatcher.next(3, 5) == ExampleRange{17, 3});
  CHECK(dispatcher.drained());
}

TEST_CASE("misuse of a dispatcher is refused") {
  BatchDispatcher dispatcher(10, 2);
  CHECK_THROWS_AS(BatchDispatcher(0, 2), std::logic_error);
  CHECK_THROWS_AS(dispatcher.next(0, 0), std::logic_error);
  CHECK_THROWS_AS(dispatcher.finished(0), std::logic_error);
  CHECK_THROWS_AS(dispatcher.startEpoch(), std::logic_error);
  dispatcher.next(0, 5);
  CHECK_THROWS_AS(dispatcher.startAt(-1), std::logic_error);
  CHECK_THROWS_AS(dispatcher.startAt(11), std::logic_error);
}

TEST_CASE("Workers get short batches in advance, but not the last ones of an epoch", "[hogbatch]") {
  constexpr double long_time = 1000.0;
  CHECK(batchesAtOnce(0.0, long_time) == 1); // how long they take is not known yet
  CHECK(batchesAtOnce(0.011, long_time) == 1);
  CHECK(batchesAtOnce(0.009, long_time) == 2);
  CHECK(batchesAtOnce(250e-6, long_time) == 33);
  CHECK(batchesAtOnce(1e-6, long_time) == 257);
  CHECK(batchesAtOnce(250e-6, 700e-6) == 3);
  CHECK(batchesAtOnce(250e-6, 250e-6) == 1);
  CHECK(batchesAtOnce(250e-6, 0.0) == 1);
}

TEST_CASE("The worker with the fewest examples comes first", "[hogbatch]") {
  struct Worker {
    std::int64_t examples;
  };
  CHECK(fewestFirst(std::vector<Worker>{{30}, {10}, {20}, {10}}) == std::vector<std::size_t>{1, 3, 2, 0});
}

} // namespace partita::test::plan_hogbatch_dispatcher
