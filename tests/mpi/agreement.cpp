#include "partita/train/agreement.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/link.hpp"
#include "partita/comm/mailbox.hpp"
#include "partita/comm/shared_window.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pmpi.hpp"
#include "small_run.hpp"
#include "support/catch.hpp"
#include "support/link_scope.hpp"

namespace partita::test::agreement {

namespace {

constexpr std::int64_t endless = std::numeric_limits<std::int64_t>::max() / 2;
constexpr std::int64_t interrupted = 3;

/// How many steps each rank has completed, in memory that all ranks share. Zero at first.
class SharedSteps {
 public:
  SharedSteps()
      : _window(everyone(), everyone().size() * std::int64_t{sizeof(Step)}),
        _steps(static_cast<Step*>(_window.data())) {}

  void set(std::int64_t step) { _steps[everyone().rank()] = step; }
  std::int64_t of(int rank) const { return _steps[rank]; }
  std::int64_t least() const { return *std::min_element(_steps, _steps + everyone().size()); }

 private:
  using Step = std::atomic<std::int64_t>;
  static_assert(Step::is_always_lock_free, "processes share it");
  SharedWindow _window;
  Step* _steps; ///< by rank
};

/// What a rank requests, and when, by the clock of the worker.
struct Asked {
  double when = 0.0;
  Wishes wishes;
};

/// A worker without any training.
struct Worker {
  std::int64_t last = endless;
  double step_seconds = 0.0; ///< maximum; half of it on average
  std::int64_t barrier_every = 0;
  bool paced = true;
  std::vector<Asked> asked; ///< by time
  std::function<double()> time;

  // Results.
  std::vector<std::int64_t> asked_at; ///< the step completed at each request
  std::string story;                  ///< what was agreed on, and after which step
  std::vector<std::int64_t> kept;     ///< steps
  std::int64_t step = 0;
  bool answered = false; ///< is the last request of rank 0, or left over at the end?

  void work() {
    Mailbox mailbox(everyone());
    Pace pace(mailbox, 0, paced ? everyone().size() : 0, paced);
    std::size_t next = 0;
    everyone().barrier();
    Agreement agreement(mailbox, pace, 0, last, [&] {
      const double now = time();
      Wishes wishes;
      for (; next < asked.size() && now >= asked[next].when; ++next) {
        asked_at.push_back(step);
        wishes.add(asked[next].wishes);
      }
      return wishes;
    });
    const LinkScope links({0.0, 0.0, step_seconds, 7});
    while (step < last) {
      delayAtRandom();
      if (barrier_every > 0 && (step + 1) % barrier_every == 0) everyone().barrier();
      const Wishes agreed = agreement.meet(++step);
      if (!agreed.any()) continue;
      story += std::to_string(step) + ": " + std::to_string(agreed.stop) + std::to_string(agreed.checkpoint) +
               "\n";
      if (agreed.checkpoint != 0) kept.push_back(step);
      if (agreed.stop != 0) break;
    }
    answered =
        asked_at.empty() || agreement.leavesCheckpoint() || (!kept.empty() && kept.back() >= asked_at.back());
    everyone().barrier();
    agreement.end();
    mailbox.close();
  }

  /// Checks that all ranks have done the same after the same steps.
  void checkSame() const { CHECK(story == broadcast(everyone(), story)); }
};

/// One rank is far slower than the others.
double unequalSeconds(unsigned seed) {
  const bool slow = everyone().rank() == static_cast<int>(seed) % everyone().size();
  return slow ? 4e-3 : 2e-5;
}

/// The seconds since this call.
std::function<double()> secondsFromNow() {
  return [begin = linkSeconds()] { return linkSeconds() - begin; };
}

/// Each rank draws when it requests checkpoints, and one rank requests the stop after all of that. Times are
/// steps that even the slowest rank has completed, so no halt of a rank makes a request come after the stop.
std::vector<Asked> randomWishes(unsigned seed) {
  std::mt19937_64 random(100 * seed + static_cast<unsigned>(everyone().rank()));
  std::uniform_real_distribution<double> early(0.0, 200.0);
  std::vector<Asked> asked;
  for (int i = 0; i < 2; ++i) asked.push_back({early(random), {0, 1}});
  if (asked[0].when > asked[1].when) std::swap(asked[0], asked[1]);
  if (everyone().rank() == static_cast<int>(seed / 2) % everyone().size())
    asked.push_back({400.0, {interrupted, 0}});
  return asked;
}

} // namespace

TEST_CASE("Ranks of unequal speed do what any of them wishes for after the same steps", "[agreement]") {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    SharedSteps steps;
    const MpiDelays delays(seed);
    Worker worker;
    worker.time = [&] {
      // A rank may be halted between its question and its promise: until it has asked, its steps stay below
      // the stop.
      steps.set(worker.asked_at.size() < 2 ? std::min<std::int64_t>(worker.step, 200) : worker.step);
      return static_cast<double>(steps.least());
    };
    worker.step_seconds = unequalSeconds(seed);
    worker.barrier_every = seed % 2 == 0 ? 7 : 0;
    worker.asked = randomWishes(seed);
    worker.work();
    worker.checkSame();
    // If the machine halts for long, the last checkpoint is agreed on together with the stop.
    CHECK_THAT(worker.story, Catch::Matchers::EndsWith(": 30\n") || Catch::Matchers::EndsWith(": 31\n"));
    CHECK(worker.asked_at.size() >= 2);
    for (std::size_t i = 0; i < std::min<std::size_t>(2, worker.asked_at.size()); ++i) {
      const bool answered = !worker.kept.empty() && worker.kept.back() >= worker.asked_at[i];
      CHECK(answered); // by a state no older than the request
    }
  }
}

TEST_CASE("An agreement that meets the end of the run holds nobody up", "[agreement]") {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    Worker worker;
    worker.last = 40 + seed;
    worker.step_seconds = 3.0 * unequalSeconds(seed) * (seed % 3 == 0 ? 0.5 : 1.0);
    worker.paced = seed % 2 == 0;
    worker.time = secondsFromNow();
    worker.asked = {{0.02 * seed, {0, 1}}, {0.02 * seed + 0.15, {seed > 9 ? interrupted : 0, 1}}};
    worker.work();
    worker.checkSame();
    if (worker.step == worker.last)
      CHECK(worker.story.find(std::to_string(worker.last) + ":") == std::string::npos);
    if (everyone().rank() == 0) CHECK(worker.answered);
  }
}

TEST_CASE("A wish for a checkpoint in the last step is left over for the end", "[agreement]") {
  constexpr std::int64_t last = 3;
  const bool asks = everyone().rank() == 0;
  Mailbox mailbox(everyone());
  Pace pace(mailbox, 0, 0, false);
  std::int64_t step = 0;
  bool asked = false;
  Agreement agreement(mailbox, pace, 0, last, [&] {
    const bool now = asks && step == last && !std::exchange(asked, asked || step == last);
    return Wishes{0, now ? 1 : 0};
  });
  while (step < last) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5)); // ranks look once per millisecond
    CHECK_FALSE(agreement.meet(++step).any());
  }
  CHECK(agreement.leavesCheckpoint() == asks);
  everyone().barrier();
  agreement.end();
  mailbox.close();
}

TEST_CASE("No rank is far ahead of the slowest", "[agreement]") {
  Worker worker;
  worker.step_seconds = 10.0 * unequalSeconds(1); // 20 ms on average, which is 25 steps in half a second
  worker.time = secondsFromNow();
  if (everyone().rank() == 0) worker.asked = {{1.5, {interrupted, 0}}};
  worker.work();
  worker.checkSame();
  if (everyone().rank() == 0) CHECK(worker.step < worker.asked_at.back() + 100);
  CHECK(worker.step < 200); // the slowest has done 75 at the request
}

TEST_CASE("The slowest rank is no slower because the whole job was suspended", "[agreement]") {
  Mailbox mailbox(everyone());
  Clock::time_point now;
  Pace pace(mailbox, 0, everyone().size(), true, [&] { return now; });
  std::int64_t step = 0;
  const auto walk = [&](int steps, std::chrono::seconds each) {
    for (int i = 0; i < steps; ++i) {
      now += each;
      pace.reach(++step);
      do {
        mailbox.poll();
        pace.look();
      } while (!pace.mayContinue());
    }
  };
  const std::chrono::seconds moment(1), suspended(36000);
  const bool knows = everyone().rank() == 0 && everyone().size() > 1;
  walk(10, moment);
  const double slowest = pace.secondsOfSlowest();
  pace.rests();
  now += moment * 30;
  walk(1, moment); // which ranks have taken before, but report only now
  pace.rested(31.0);
  CHECK(pace.secondsOfSlowest() <= slowest);
  now += suspended;
  if (knows) {
    CHECK(pace.secondsOfSlowest() > 0.0);
    CHECK(pace.secondsOfSlowest() <= 60.0);
  }
  walk(10, moment);
  if (knows) CHECK(pace.secondsOfSlowest() <= 60.0);
  everyone().barrier();
  mailbox.close();
}

TEST_CASE("Ranks of the same speed never wait for their bound", "[agreement]") {
  SharedSteps steps;
  Mailbox mailbox(everyone());
  Pace pace(mailbox, 0, everyone().size(), true);
  std::int64_t waits = 0, step = 0;
  // The speed is the same even if a rank is halted: the others wait for it here, and it does not catch up.
  const auto isAhead = [&] { return step > steps.least() + 10; };
  everyone().barrier();
  while (step < 1000) {
    const double due = linkSeconds() + 1e-3;
    while (linkSeconds() < due || isAhead()) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      mailbox.poll();
      pace.look();
    }
    pace.reach(++step);
    steps.set(step);
    mailbox.poll();
    pace.look();
    if (step > 200 && !pace.mayContinue()) ++waits;
    while (!pace.mayContinue()) {
      mailbox.poll();
      pace.look();
    }
  }
  everyone().barrier();
  mailbox.close();
  CHECK(20 * waits <= step); // allows for halts that follow one another closely
}

TEST_CASE("A signal that reaches all ranks is answered by one checkpoint", "[agreement]") {
  SharedSteps steps;
  Worker worker;
  worker.step_seconds = unequalSeconds(2);
  worker.time = [&] { // each signal is sent after a certain step of rank 0
    steps.set(worker.step);
    return static_cast<double>(steps.of(0));
  };
  worker.asked = {{50.0, {0, 1}}, {300.0, {interrupted, 0}}};
  worker.work();
  worker.checkSame();
  CHECK(worker.kept.size() == 1);
}

} // namespace partita::test::agreement
