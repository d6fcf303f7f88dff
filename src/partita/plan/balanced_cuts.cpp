#include "partita/plan/balanced_cuts.hpp"

#include "partita/config/user_error.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace partita {

namespace {

/// A partial solution for cutting 0..n: where its last part begins, and its cost.
struct PartialCut {
  double value = std::numeric_limits<double>::infinity();
  std::int64_t from = 0;
};
using CutTable = std::vector<std::vector<PartialCut>>; ///< [parts so far][end]

/// The best ways to cut 0..end into 1..parts parts, for every end that leaves each later part something;
/// `join` combines a part's cost with the value of the parts before it, and is never smaller than that value.
/// Among equal ways, the earliest last cut wins.
template <class Join>
CutTable cutTable(std::int64_t n, int parts, const PartCost& cost, const PartCost& lower_bound,
                  const Join& join) {
  constexpr double impossible = std::numeric_limits<double>::infinity();
  CutTable best(parts + 1, std::vector<PartialCut>(n + 1));
  best[0][0].value = 0.0;
  for (int part = 1; part <= parts; ++part) {
    const std::size_t p = part;
    for (std::int64_t end = part < parts ? part : n; end <= n - (parts - part); ++end) {
      const auto value_from = [&](std::int64_t from) {
        const double before = best[p - 1][from].value;
        const double value = before < impossible ? join(before, cost(from, end, part - 1)) : impossible;
        return value < impossible ? value : impossible; // not NaN
      };
      PartialCut& here = best[p][end];
      double limit = value_from(best[p][end - 1].from); // the best is no larger
      for (std::int64_t from = part > 1 ? end - 1 : 0; from >= part - 1; --from) {
        const double before = best[p - 1][from].value;
        if (before > limit || before == impossible) continue;
        if (lower_bound) { // longer parts cost even more
          const double bound = join(0.0, lower_bound(from, end, part - 1));
          if (bound > limit || bound == impossible) break;
        }
        const double value = value_from(from);
        if (value > limit || value == impossible) continue;
        here = {value, from};
        limit = value;
      }
    }
  }
  return best;
}

} // namespace

std::vector<std::int64_t> balancedCuts(std::int64_t n, int parts, const PartCost& cost,
                                       const PartCost& lower_bound) {
  std::vector<std::int64_t> cuts(static_cast<std::size_t>(parts) - 1);
  std::iota(cuts.begin(), cuts.end(), std::int64_t{1});
  if (parts == 1 || parts == n) return cuts;
  constexpr double most_costs = 1e9; // to compare: minutes
  if (0.5 * static_cast<double>(n) * static_cast<double>(n) * (parts - 2) > most_costs)
    throw UserError("strategy/stages: balancing " + std::to_string(n) + " layers or stages over " +
                    std::to_string(parts) + " parts may take hours");
  const std::size_t count = parts, size = n;
  const double largest =
      cutTable(n, parts, cost, lower_bound,
               [](double before, double own) { return std::max(before, own); })[count][size]
          .value;
  if (largest == std::numeric_limits<double>::infinity()) return std::vector<std::int64_t>(count - 1, 0);
  const CutTable best = cutTable(n, parts, cost, lower_bound, [largest](double before, double own) {
    return own > largest ? std::numeric_limits<double>::infinity() : before + own * own;
  });
  std::int64_t end = n;
  for (std::size_t p = count; p > 1; --p) {
    end = best[p][end].from;
    cuts[p - 2] = end;
  }
  return cuts;
}

std::vector<std::int64_t> balancedCuts(const std::vector<double>& before, int parts) {
  const PartCost cost = [&](std::int64_t first, std::int64_t last, int) {
    return before[static_cast<std::size_t>(last)] - before[static_cast<std::size_t>(first)];
  };
  return balancedCuts(static_cast<std::int64_t>(before.size()) - 1, parts, cost, cost);
}

} // namespace partita
