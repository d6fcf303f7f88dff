#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/stage_updater.hpp"

#include <limits>

#include "support/catch.hpp"

namespace partita::test::strategy_reports {

namespace {

RunConfig deckOf(StrategyKind kind, std::int64_t log_every = 0, std::int64_t meeting = 8) {
  RunConfig config;
  config.strategy.kind = kind;
  config.strategy.local_sgd.every = meeting;
  config.run.log_every = log_every;
  return config;
}

} // namespace

TEST_CASE("A run has about 200 reports unless the deck says how many", "[strategy]") {
  const RunConfig deck = deckOf(StrategyKind::joint);
  CHECK(logInterval(deck, 1) == 1);
  CHECK(logInterval(deck, 399) == 1);
  CHECK(logInterval(deck, 400) == 2);
  CHECK(logInterval(deck, 10000000) == 1000);
  CHECK(logInterval(deckOf(StrategyKind::joint, 5000), 256) == 5000);
}

TEST_CASE("Replicas that learn alone report when they meet", "[strategy]") {
  constexpr StrategyKind local = StrategyKind::local_sgd;
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t meeting : {std::int64_t{1}, std::int64_t{7}, std::int64_t{600}, largest}) {
    const RunConfig deck = deckOf(local, 0, meeting);
    for (const std::int64_t steps : {1, 256, 2000, 123456, 10000000}) {
      INFO(meeting << ", " << steps);
      const std::int64_t usual = logInterval(deckOf(StrategyKind::joint), steps);
      const std::int64_t interval = logInterval(deck, steps);
      CHECK(planOf(deck.strategy).meetsAfter(deck.strategy, interval));
      CHECK(interval >= usual);
      CHECK(interval - usual < meeting);
    }
  }
  CHECK(logInterval(deckOf(local, 3), 256) == 3);
}

} // namespace partita::test::strategy_reports
