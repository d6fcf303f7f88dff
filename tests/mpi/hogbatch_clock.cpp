#include "partita/core/error.hpp"
#include "partita/plan/hogbatch/virtual_clock.hpp"
#include "partita/strategy/hogbatch/decisions.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <unistd.h>

#include "small_run.hpp"
#include "support/catch.hpp"

namespace partita::test::hogbatch_clock {

/// Losses at equal time, without noise. The virtual clock says which worker has computed which batch from
/// which version of the model, and a replay of these decisions computes the gradients.

namespace {

constexpr std::int64_t samples = 2000, epochs = 12;
constexpr std::int64_t lower = 16, start = 64;
constexpr std::int64_t largest = 512;
constexpr double fast = 8000.0, seconds = 1.25; // examples/s of the fast worker; it computes 10,000

const std::vector<double> rates{0.05, 0.1, 0.2, 0.4}; ///< for a batch of `start`; other batches scale them

/// The deck of a run that ended after this many steps.
RunConfig deckOf(double rate, std::int64_t steps, const std::string& log) {
  RunConfig deck =
      smallDeck({"strategy/kind=hogbatch", "strategy/stages=1", "strategy/shared_workers=0",
                 "optimiser/kind=sgd", "optimiser/momentum=0", "optimiser/schedule=constant",
                 "optimiser/learning_rate=" + std::to_string(rate), "run/epochs=" + std::to_string(epochs),
                 "data/samples=" + std::to_string(samples), "data/test_samples=1000",
                 "training/batch=" + std::to_string(start),
                 "network/layers=[{type='dense',units=32,activation='tanh'},{type='dense'}]"});
  deck.run.steps = steps;
  deck.strategy.hogbatch.replay = log;
  return deck;
}

/// Two replicas; the first is `ratio` times slower. Overheads are a hundredth of a batch.
WorkerMix pairOf(double ratio, WorkerRule rule, const StalenessScale& staleness) {
  WorkerMix mix;
  mix.rules.rule = rule;
  mix.rules.growth = BatchGrowth::bounded;
  // To balance 1 : 16, the fast one needs batches of 256, from which this network learns less per sample.
  const std::int64_t upper = ratio <= 4.0 ? largest : start;
  mix.groups.assign(2, {WorkerRole::replica, 1, lower, upper, start});
  mix.workers = {{0, 0.01 * start * ratio / fast, fast / ratio, "slow"},
                 {1, 0.01 * start / fast, fast, "fast"}};
  mix.examples = samples;
  mix.rate = {static_cast<double>(start), 0.0};
  mix.staleness = staleness;
  return mix;
}

/// The fast replica alone.
WorkerMix aloneOf(std::int64_t batch) {
  WorkerMix mix = pairOf(1.0, WorkerRule::fixed, {});
  mix.groups = {{WorkerRole::replica, 1, batch, batch, batch}};
  mix.workers = {{0, 0.01 * start / fast, fast, "fast"}};
  return mix;
}

class Clock {
 public:
  Clock()
      : _log((std::filesystem::temp_directory_path() / ("partita-clock-" + std::to_string(getpid()) + ".csv"))
                 .string()) {}
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  ~Clock() { std::filesystem::remove(_log); }

  /// The test loss after `seconds`, with the best learning rate.
  double lossOf(const WorkerMix& mix) const {
    double best = std::numeric_limits<double>::infinity();
    for (const double rate : rates) best = std::min(best, lossOf(mix, rate));
    return best;
  }

  double lossOf(const WorkerMix& mix, double rate) const {
    std::vector<TimedUpdate> updates;
    playCourse(mix, epochs, &updates);
    REQUIRE(updates.back().seconds > seconds); // the run lasts long enough
    std::int64_t steps = 0;
    {
      DecisionLog log(_log, 0, false);
      std::int64_t number = 0;
      for (const TimedUpdate& update : updates) {
        if (update.seconds > seconds) continue;
        log.add(decisionOf(update, number++, rate));
        steps = std::max(steps, stepAfter(update));
      }
      log.flush();
    }
    SmallRun run(groupOf(1), deckOf(rate, steps, _log));
    try {
      return run.train().evaluate().loss.front();
    } catch (const RunError&) { // the rate is too large
      return std::numeric_limits<double>::infinity();
    }
  }

 private:
  static std::int64_t stepAfter(const TimedUpdate& update) {
    constexpr std::int64_t per_epoch = samples / start;
    const std::int64_t done = update.first + update.count;
    return update.epoch * per_epoch + (done >= samples ? per_epoch : std::min(done / start, per_epoch - 1));
  }

  static Decision decisionOf(const TimedUpdate& update, std::int64_t number, double rate) {
    Decision decision;
    decision.number = number;
    decision.worker = static_cast<std::int64_t>(update.worker);
    decision.epoch = update.epoch;
    decision.first = update.first;
    decision.count = decision.total = update.count;
    decision.read = update.read;
    decision.applied = update.applied;
    decision.rate = rate * update.factor;
    return decision;
  }

  std::string _log;
};

} // namespace

TEST_CASE("At equal time, adaptive workers of not too unequal speed beat the best one alone", "[hogbatch]") {
  if (everyone().size() > 1) return;
  const Clock clock;
  double alone = std::numeric_limits<double>::infinity();
  for (std::int64_t batch = lower; batch <= largest; batch *= 2) {
    const double loss = clock.lossOf(aloneOf(batch));
    UNSCOPED_INFO("alone, batches of " << batch << ": " << loss);
    alone = std::min(alone, loss);
  }
  for (const double ratio : {1.0, 2.0, 4.0, 16.0}) {
    const double adaptive = clock.lossOf(pairOf(ratio, WorkerRule::adaptive, {})),
                 ringmaster = clock.lossOf(pairOf(ratio, WorkerRule::fixed, {StalenessRule::ringmaster, 4})),
                 fixed = clock.lossOf(pairOf(ratio, WorkerRule::fixed, {}));
    UNSCOPED_INFO("speeds 1 : " << ratio << ": adaptive " << adaptive << ", ringmaster " << ringmaster
                                << ", fixed " << fixed);
    CHECK(adaptive <= 1.05 * alone);
    if (ratio <= 4.0) CHECK(adaptive < alone);
    CHECK(adaptive <= 1.05 * ringmaster);
  }
}

TEST_CASE("The same clock gives the same loss, bit for bit", "[hogbatch]") {
  if (everyone().size() > 1) return;
  const Clock clock;
  const WorkerMix mix = pairOf(4.0, WorkerRule::adaptive, {StalenessRule::scale, 0});
  CHECK(clock.lossOf(mix, 0.1) == clock.lossOf(mix, 0.1));
}

} // namespace partita::test::hogbatch_clock
