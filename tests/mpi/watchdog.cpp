#include "partita/comm/watchdog.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/shared_window.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "common_clock.hpp"
#include "pmpi.hpp"
#include "small_run.hpp"
#include "support/catch.hpp"

namespace partita::test::watchdog {

using Catch::Matchers::ContainsSubstring;

namespace {

/// Limits short enough for a test, in seconds of a clock that leaves out the time for which a busy machine
/// keeps a process from its core.
Watchdog::Limits shortLimits() {
  Watchdog::Limits limits;
  limits.sign = 0.05;
  limits.stuck = 1.0;
  limits.warning = 0.7;
  limits.silence = 2.1;
  return limits;
}

/// What the watchdog of this rank found.
struct Found {
  std::vector<std::string> warnings, ends;
  std::function<void()> cure = [] {}; ///< replaces the end of the job

  Watchdog::Actions actions() {
    return {[this](const std::string& text) { warnings.push_back(text); },
            [this](const std::string& text) {
              ends.push_back(text);
              cure();
            }};
  }
};

void sleepBriefly() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// One of the ranks reaches a barrier late. It does nothing visible to MPI or the watchdog until all ranks
/// that can notice its silence have done so.
Found vanishedRank(const Communicator& ranks, int late) {
  const int wanted = late == 0 ? ranks.size() - 1 : 1; // only rank 0 knows of the others
  const SharedWindow window(ranks, sizeof(std::atomic<int>));
  std::atomic<int>& noticed = *static_cast<std::atomic<int>*>(window.data());
  CommonClock clock(ranks);
  Found found;
  found.cure = [&] {
    if (found.ends.size() == 1) ++noticed;
  };
  {
    const Watchdog watchdog(ranks, shortLimits(), found.actions(), [&] { return clock.seconds(); });
    if (ranks.rank() == late) {
      clock.leave();
      for (int i = 0; i < 60000 && noticed < wanted; ++i) sleepBriefly();
      clock.comeBack();
    }
    ranks.barrier();
  }
  found.cure = [] {};
  return found;
}

/// One of the ranks reaches a barrier late, because it computes for longer than a rank may be silent.
Found computingRank(const Communicator& ranks, int late) {
  CommonClock clock(ranks);
  Found found;
  const Watchdog watchdog(ranks, shortLimits(), found.actions(), [&] { return clock.seconds(); });
  while (ranks.rank() == late && clock.seconds() < 3.5) {
    sleepBriefly();
    alive();
  }
  ranks.barrier();
  return found;
}

} // namespace

TEST_CASE("Of two threads that end the job, one reports", "[watchdog]") {
  if (everyone().rank() == 0) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(ends[1], STDERR_FILENO);
      std::thread([] { endJob(0, "a reason", 7); }).detach();
      endJob(0, "a reason", 7);
    }
    close(ends[1]);
    std::string said;
    std::array<char, 256> part{};
    for (ssize_t size = 0; (size = read(ends[0], part.data(), part.size())) > 0;)
      said.append(part.data(), static_cast<std::size_t>(size));
    close(ends[0]);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
    CHECK(said == "partita: rank 0: a reason\n");
  }
  everyone().barrier();
}

TEST_CASE("A lost message is reported: who waits for what", "[watchdog]") {
  const int ranks = everyone().size();
  if (ranks == 1) return;
  const std::string expected = trainedHash(1, {});
  CommonClock clock(everyone());
  MpiLoss loss(0, 5);
  Found found;
  found.cure = [&] { loss.deliver(); };
  std::string hash;
  {
    const Watchdog watchdog(everyone(), shortLimits(), found.actions(), [&] { return clock.seconds(); });
    hash = trainedHash(ranks, {});
  }
  CHECK(hash == expected); // the message was used correctly when it finally arrived
  if (everyone().rank() > 0) {
    CHECK(found.ends.empty());
    return;
  }
  REQUIRE(found.ends.size() == 1);
  CHECK_THAT(found.ends[0], ContainsSubstring("waiting for one another; a message is lost"));
  CHECK_THAT(found.ends[0], ContainsSubstring("rank 0: waiting "));
  CHECK_THAT(found.ends[0], ContainsSubstring("for rank 1 to receive message 9 (activations)"));
  CHECK_THAT(found.ends[0], ContainsSubstring("rank 1: waiting "));
  CHECK_THAT(found.ends[0], ContainsSubstring("for message 5 (activations) from rank 0"));
}

TEST_CASE("A rank that does not respond causes a warning, then the job ends", "[watchdog]") {
  const int ranks = everyone().size();
  if (ranks == 1) return;
  const Found found = vanishedRank(everyone(), ranks - 1);
  if (everyone().rank() > 0) {
    CHECK(found.ends.empty());
    return;
  }
  const std::string silent = "rank " + std::to_string(ranks - 1) + ": no response for ";
  REQUIRE(!found.warnings.empty());
  CHECK(found.warnings.size() <= 3); // at growing intervals
  CHECK_THAT(found.warnings[0], ContainsSubstring(silent));
  CHECK_THAT(found.warnings[0], ContainsSubstring("for all other ranks (barrier)"));
  REQUIRE(!found.ends.empty());
  CHECK_THAT(found.ends[0], ContainsSubstring(silent));
}

TEST_CASE("A silent rank has its number in the job, whichever ranks are left", "[watchdog]") {
  const int ranks = everyone().size();
  if (ranks < 3) return;
  const bool left = everyone().rank() > 0;
  const Communicator others = everyone().split(left ? 1 : 0, everyone().rank());
  if (!left) return;
  const Found found = vanishedRank(others, others.size() - 1);
  if (others.rank() > 0) return;
  const std::string silent = "rank " + std::to_string(ranks - 1) + ": no response for ";
  REQUIRE(!found.ends.empty());
  CHECK_THAT(found.ends[0], ContainsSubstring(silent));
  for (const char* absent : {"rank 0", "ranks 0"}) CHECK(found.ends[0].find(absent) == std::string::npos);
}

TEST_CASE("A silent rank 0 is noticed by all others", "[watchdog]") {
  if (everyone().size() == 1) return;
  const Found found = vanishedRank(everyone(), 0);
  if (everyone().rank() == 0) {
    CHECK(found.ends.empty());
    return;
  }
  REQUIRE(!found.ends.empty());
  CHECK_THAT(found.ends[0], ContainsSubstring("rank 0: no response"));
}

TEST_CASE("A rank may work for any length of time", "[watchdog]") {
  for (const int late : {0, everyone().size() - 1}) {
    const Found found = computingRank(everyone(), late);
    CHECK(found.ends.empty());
  }
}

TEST_CASE("A job that is suspended as a whole goes on when it is resumed", "[watchdog]") {
  constexpr double moment = 0.5, long_time = 1000.0;
  for (const int late : {0, everyone().size() - 1}) {
    CommonClock clock(everyone());
    Found found;
    const Watchdog watchdog(everyone(), shortLimits(), found.actions(), [&] {
      const double seconds = clock.seconds();
      return seconds + (seconds > moment ? long_time : 0.0);
    });
    while (everyone().rank() == late && clock.seconds() < 2.0 * moment) {
      sleepBriefly();
      alive();
    }
    everyone().barrier();
    CHECK(found.ends.empty());
    CHECK(found.warnings.empty());
  }
}

TEST_CASE("An error on which all ranks agree ends the watch together", "[watchdog]") {
  const SharedWindow window(everyone(), sizeof(std::atomic<int>));
  std::atomic<int>& left = *static_cast<std::atomic<int>*>(window.data());
  struct Leaving {
    ~Leaving() {
      if (everyone().rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ++left;
    }
    std::atomic<int>& left;
  };
  const auto fail = [&] {
    Found found;
    const Watchdog watchdog(everyone(), shortLimits(), found.actions());
    const Leaving leaving{left};
    collectively(everyone(), [] { throw UserError("a mistake"); });
  };
  CHECK_THROWS_AS(fail(), AgreedError);
  CHECK(left == everyone().size()); // whose last signs rank 0 has received
  CHECK_FALSE(AgreedError::underWay());
}

/// Counts how often this rank says that it is computing.
class SignCounter : public Watcher {
 public:
  SignCounter() { setWatcher(this); }
  ~SignCounter() { setWatcher(nullptr); }
  SignCounter(const SignCounter&) = delete;
  SignCounter& operator=(const SignCounter&) = delete;
  void waiting(const WaitedFor&, double) override {}
  void computing() override { ++signs; }

  std::int64_t signs = 0;
};

std::int64_t signsOfTraining(const Overrides& overrides) {
  const Communicator own = groupOf(1);
  SmallRun run(own, smallDeck(Overrides{"strategy/kind=sil", "run/evaluate_every=0"} + overrides));
  SignCounter counter;
  run.train();
  return counter.signs;
}

TEST_CASE("A rank says that it computes in everything that may take long", "[watchdog]") {
  const std::int64_t steps = 30, segments = 15;
  CHECK(signsOfTraining({"strategy/stages=3", "strategy/input=frozen"}) >= 3 * steps + 2 * segments);
  const std::int64_t labels = 120;
  const Overrides exits{"strategy/stages=2", "data/validation=0.2"};
  CHECK(signsOfTraining(exits + Overrides{"strategy/exits=fitted"}) >=
        signsOfTraining(exits + Overrides{"strategy/exits=sum"}) + 3 * labels);
}

TEST_CASE("A short run sends no signs", "[watchdog]") {
  const MpiRecording recording;
  {
    Watchdog::Limits limits;
    limits.sign = 60;
    const Watchdog watchdog(everyone(), limits);
    for (int i = 0; i < 100; ++i) alive();
    everyone().barrier();
  }
  CHECK(recording.all().empty());
}

} // namespace partita::test::watchdog
