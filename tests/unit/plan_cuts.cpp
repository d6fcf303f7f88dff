#include "partita/core/random.hpp"
#include "partita/plan/balanced_cuts.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "support/catch.hpp"

namespace partita::test::plan_cuts {

namespace {

using Cuts = std::vector<std::int64_t>;
using Cost = std::function<double(std::int64_t, std::int64_t, int)>;

struct Quality {
  double largest = 0.0, squares = 0.0;
  bool operator<(const Quality& other) const {
    return largest != other.largest ? largest < other.largest : squares < other.squares;
  }
  bool operator==(const Quality& other) const { return largest == other.largest && squares == other.squares; }
};

Quality qualityOf(const Cuts& cuts, std::int64_t n, const Cost& cost) {
  Quality quality;
  std::int64_t first = 0;
  for (std::size_t part = 0; part <= cuts.size(); ++part) {
    const std::int64_t last = part < cuts.size() ? cuts[part] : n;
    const double own = cost(first, last, static_cast<int>(part));
    quality.largest = std::max(quality.largest, own);
    quality.squares += own * own;
    first = last;
  }
  return quality;
}

/// Tries all possible cuts.
Quality bestOfAll(Cuts& cuts, std::int64_t n, std::size_t parts, const Cost& cost) {
  if (cuts.size() + 1 == parts) return qualityOf(cuts, n, cost);
  Quality best{1e300, 0.0};
  const auto left = static_cast<std::int64_t>(parts - cuts.size() - 1);
  for (std::int64_t cut = cuts.empty() ? 1 : cuts.back() + 1; cut + left <= n; ++cut) {
    cuts.push_back(cut);
    best = std::min(best, bestOfAll(cuts, n, parts, cost));
    cuts.pop_back();
  }
  return best;
}

void checkAgainstAll(std::int64_t n, int parts, const Cost& cost) {
  const Cuts cuts = balancedCuts(n, parts, cost);
  REQUIRE(cuts.size() == static_cast<std::size_t>(parts) - 1);
  std::int64_t before = 0;
  for (const std::int64_t cut : cuts) {
    REQUIRE(cut > before);
    before = cut;
  }
  REQUIRE(before < n);
  Cuts none;
  REQUIRE(qualityOf(cuts, n, cost) == bestOfAll(none, n, static_cast<std::size_t>(parts), cost));
}

} // namespace

TEST_CASE("Balanced cuts are the best of all, costs that add up", "[plan]") {
  const RandomStream random(1, Stream::split);
  for (std::uint64_t round = 0; round < 300; ++round) {
    const auto n = static_cast<std::int64_t>(1 + random.below(100 * round, 9));
    std::vector<double> costs; // small integers give many ties and exact sums
    for (std::int64_t i = 0; i < n; ++i)
      costs.push_back(random.below(100 * round + 10 + static_cast<std::uint64_t>(i), 6));
    const Cost cost = [&](std::int64_t first, std::int64_t last, int) {
      double sum = 0.0;
      for (std::int64_t i = first; i < last; ++i) sum += costs[static_cast<std::size_t>(i)];
      return sum;
    };
    std::vector<double> before{0.0};
    for (const double own : costs) before.push_back(before.back() + own);
    for (int parts = 1; parts <= n; ++parts) {
      checkAgainstAll(n, parts, cost);
      REQUIRE(balancedCuts(before, parts) == balancedCuts(n, parts, cost));
    }
  }
}

TEST_CASE("A bound on the costs of parts changes no cut", "[plan]") {
  int asked_in_all = 0, all_in_all = 0;
  for (std::uint32_t round = 0; round < 200; ++round) {
    const RandomStream random(3, Stream::split, round);
    const auto n = static_cast<std::int64_t>(3 + random.below(1000, 60));
    const int parts = 2 + static_cast<int>(random.below(1001, static_cast<std::uint32_t>(n - 2)));
    std::vector<double> before{0.0};
    for (std::int64_t i = 0; i < n; ++i)
      before.push_back(before.back() + random.below(static_cast<std::uint64_t>(i), 4));
    int asked = 0;
    const auto sum = [&](std::int64_t first, std::int64_t last) {
      return before[static_cast<std::size_t>(last)] - before[static_cast<std::size_t>(first)];
    };
    const Cost lower_bound = [&](std::int64_t first, std::int64_t last, int) { return sum(first, last); };
    const Cost cost = [&](std::int64_t first, std::int64_t last, int part) { // as of stages with heads
      ++asked;
      const double own = sum(first, last);
      return own == 0.0 ? 1e100 : own + random.below(static_cast<std::uint64_t>(2000 + last), 5) + (part > 0);
    };
    const Cuts without = balancedCuts(n, parts, cost);
    all_in_all += std::exchange(asked, 0);
    REQUIRE(balancedCuts(n, parts, cost, lower_bound) == without);
    asked_in_all += asked;
    const double largest = qualityOf(without, n, cost).largest;
    const Cost limited = [&](std::int64_t first, std::int64_t last, int part) {
      const double own = cost(first, last, part);
      return own > largest ? std::numeric_limits<double>::infinity() : own;
    };
    REQUIRE(balancedCuts(n, parts, limited, lower_bound) == without);
  }
  CHECK(2 * asked_in_all < all_in_all);
}

TEST_CASE("Balanced cuts are the best of all, any costs", "[plan]") {
  for (std::uint32_t round = 0; round < 300; ++round) {
    const RandomStream random(2, Stream::split, round);
    const Cost cost = [&](std::int64_t first, std::int64_t last, int part) {
      return 1.0 + random.below(static_cast<std::uint64_t>((first * 10 + last) * 10 + part), 20);
    };
    const auto n = static_cast<std::int64_t>(2 + round % 7);
    checkAgainstAll(n, 1 + static_cast<int>(round % static_cast<std::uint32_t>(n)), cost);
  }
}

} // namespace partita::test::plan_cuts
