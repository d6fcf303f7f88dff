#include "partita/comm/ring_time.hpp"

#include "partita/comm/arrival_times.hpp"
#include "partita/comm/tags.hpp"
#include "partita/comm/wait.hpp"
#include "partita/core/clock.hpp"
#include "partita/plan/cost/typical.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace partita {

namespace {

/// The position of a rank in its ring.
struct RingPlace {
  RingPlace(const Communicator& world, int size)
      : first(world.rank() / size * size), next(first + (world.rank() - first + 1) % size),
        last(first + (world.rank() - first + size - 1) % size), whole(first + size <= world.size()) {}
  int first, next, last; ///< ranks of `world`
  bool whole;            ///< there are enough ranks for this ring
};

/// Memory larger than caches, of which each message takes the next piece: in training, much other memory is
/// used before a message arrives at the same place again.
class MessageMemory {
 public:
  explicit MessageMemory(std::int64_t bytes) : _bytes(bytes), _memory(std::max(bytes, larger_than_caches)) {}

  char* next() {
    if (_begin + _bytes > static_cast<std::int64_t>(_memory.size())) _begin = 0;
    char* const piece = _memory.data() + _begin;
    _begin += (_bytes + alignment - 1) / alignment * alignment;
    return piece;
  }

  /// Writes the next pieces, as a layer writes its output before it is sent: caches hold what they can of it.
  void write(int pieces) {
    const std::int64_t begin = _begin;
    for (int i = 0; i < pieces; ++i) std::fill_n(next(), _bytes, char{1});
    _begin = begin;
  }

 private:
  static constexpr std::int64_t larger_than_caches = std::int64_t{1} << 26, alignment = 64;
  std::int64_t _bytes, _begin = 0;
  std::vector<char> _memory;
};

void startExchange(const Communicator& world, const RingPlace& place, const char* sent, char* received,
                   int count, Request& in, Request& out, ArrivalTimes& arrivals) {
  constexpr int tag = static_cast<int>(Tag::ring);
  PARTITA_MPI(MPI_Irecv(received, count, MPI_BYTE, place.last, tag, world.get(),
                        in.start({WaitedFor::Kind::message, "ring", world.worldRank(place.last)})));
  PARTITA_MPI(MPI_Isend(sent, count, MPI_BYTE, place.next, tag, world.get(),
                        out.start({WaitedFor::Kind::taker, "ring", world.worldRank(place.next)})));
  arrivals.posted(place.last, "ring");
  arrivals.sent(place.next, count, "ring");
}

/// Steps of a ring on this rank.
class Ring {
 public:
  Ring(const Communicator& world, int size, std::int64_t bytes)
      : _world(world), _place(world, size), _count(mpiCount(bytes)), _out(bytes), _in(bytes),
        _arrivals(world) {
    PARTITA_REQUIRE(size >= 2 && size <= world.size(), "a ring has two or more of the ranks");
  }

  /// Seconds of a step; 0 without a ring. `compute`: after each message; empty: nothing.
  double block(int steps, bool sends, const std::function<void()>& compute) {
    if (sends) _out.write(steps);
    _world.barrier();
    const auto start = Clock::now();
    for (int step = 0; _place.whole && step < steps; ++step) {
      if (sends) exchange();
      if (compute) compute();
    }
    return _place.whole ? secondsSince(start) / steps : 0.0;
  }

 private:
  /// Waits as training does, which leaves the core to other ranks.
  void exchange() {
    Request in, out;
    startExchange(_world, _place, _out.next(), _in.next(), _count, in, out, _arrivals);
    in.wait();
    out.wait();
    _arrivals.wait();
  }

  const Communicator& _world;
  RingPlace _place;
  int _count;
  MessageMemory _out, _in;
  ArrivalTimes _arrivals;
};

/// One call on the slowest rank.
double secondsOf(const Communicator& world, const std::function<void()>& call) {
  world.barrier();
  const auto start = Clock::now();
  call();
  return world.maximum(secondsSince(start));
}

/// The mean of calls that follow one another for many turns of ranks that share cores.
double meanSeconds(const Communicator& world, const std::function<void()>& call) {
  constexpr double enough_seconds = 0.2;
  constexpr double most_calls = 1000;
  const auto mean = [&](int calls) {
    world.barrier();
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    return world.maximum(secondsSince(start) / calls);
  };
  return mean(static_cast<int>(std::clamp(enough_seconds / mean(2), 2.0, most_calls)));
}

} // namespace

double ringStepSeconds(const Communicator& world, int size, std::int64_t bytes) {
  constexpr double block_seconds = 1e-3, most_seconds = 0.3;
  constexpr int most_steps = 200, most_blocks = 20, least_blocks = 3;
  Ring ring(world, size, bytes);
  const auto block = [&](int steps) { return ring.block(steps, true, {}); };
  block(1); // warms up
  // Enough steps for the clock, but few if ranks wait for a core. All ranks decide alike.
  const double once = world.maximum(block(1));
  const int steps = static_cast<int>(std::clamp(block_seconds / once, 1.0, double{most_steps}));
  std::vector<double> blocks;
  double spent = 0.0;
  for (int i = 0; i < least_blocks || (i < most_blocks && spent < most_seconds); ++i) {
    blocks.push_back(world.maximum(block(steps)));
    spent += steps * blocks.back();
  }
  return typical(Typical::lower_quartile, blocks);
}

double oversubscribedRingStep(const Communicator& world, int size, std::int64_t bytes,
                              const std::function<void()>& compute) {
  constexpr double enough_seconds = 0.1; // many turns
  constexpr int most_steps = 1000;
  Ring ring(world, size, bytes);
  const double once = world.maximum(ring.block(2, true, compute));
  const int steps = static_cast<int>(std::clamp(enough_seconds / once, 2.0, double{most_steps}));
  const double both = world.maximum(ring.block(steps, true, compute)),
               computing = world.maximum(ring.block(steps, false, compute));
  return std::max(both - computing, ringStepSeconds(world, size, bytes));
}

double ringOverlap(const Communicator& world, int size, std::int64_t bytes, bool oversubscribed,
                   const std::function<void()>& compute) {
  constexpr double most_calls = 1000;
  const RingPlace place(world, size);
  const int count = mpiCount(bytes);
  MessageMemory out(bytes), in(bytes);
  ArrivalTimes arrivals(world);
  const auto once = [&](bool sends, int calls) {
    std::array<Request, 2> requests;
    if (sends && place.whole)
      startExchange(world, place, out.next(), in.next(), count, requests[0], requests[1], arrivals);
    for (int call = 0; call < calls; ++call) {
      compute();
      for (Request& request : requests)
        if (request.underWay()) request.test();
    }
    for (Request& request : requests)
      if (request.underWay()) request.wait();
    arrivals.wait();
  };
  const auto seconds = [&](bool sends, int calls) {
    const auto run = [&] { once(sends, calls); };
    return oversubscribed ? meanSeconds(world, run) : secondsOf(world, run);
  };
  const int rounds = oversubscribed ? 1 : 15; // means are of many calls already
  std::vector<double> messages, computations, fractions;
  for (int round = 0; round < rounds; ++round) {
    messages.push_back(seconds(true, 0));
    computations.push_back(seconds(false, 1));
  }
  const int calls = static_cast<int>(std::clamp(2.0 * typical(Typical::lower_quartile, messages) /
                                                    typical(Typical::lower_quartile, computations),
                                                1.0, most_calls));
  for (int round = 0; round < rounds; ++round) {
    const double message = seconds(true, 0), computing = seconds(false, calls), both = seconds(true, calls);
    fractions.push_back((message + computing - both) / std::min(message, computing));
  }
  return std::clamp(typical(Typical::median, fractions), 0.0, 1.0);
}

} // namespace partita
