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

/// The best ways to cut 0..end into 1..parts parts, for every end; `join` combines a part's cost with the
/// value of the parts before it.
template <class Join>
CutTable cutTable(std::int64_t n, int parts,
                  const std::function<double(std::int64_t, std::int64_t, int)>& cost, const Join& join) {
  CutTable best(parts + 1, std::vector<PartialCut>(n + 1));
  best[0][0].value = 0.0;
  for (int part = 1; part <= parts; ++part) {
    const std::size_t p = part;
    for (std::int64_t end = part < parts ? part : n; end <= n; ++end) {
      PartialCut& here = best[p][end];
      for (std::int64_t from = part - 1; from < (part > 1 ? end : 1); ++from) {
        const double before = best[p - 1][from].value;
        const double value = join(before, cost(from, end, part - 1));
        if (value < here.value) here = {value, from};
      }
    }
  }
  return best;
}

} // namespace

std::vector<std::int64_t> balancedCuts(std::int64_t n, int parts,
                                       const std::function<double(std::int64_t, std::int64_t, int)>& cost) {
  std::vector<std::int64_t> cuts(static_cast<std::size_t>(parts) - 1);
  std::iota(cuts.begin(), cuts.end(), std::int64_t{1});
  if (parts == 1 || parts == n) return cuts;
  constexpr double most_costs = 1e9; // to compare: minutes
  if (0.5 * static_cast<double>(n) * static_cast<double>(n) * (parts - 2) > most_costs)
    throw UserError("strategy/stages: balancing " + std::to_string(n) + " layers or stages over " +
                    std::to_string(parts) + " parts would take hours");
  const std::size_t count = parts, size = n;
  const double largest =
      cutTable(n, parts, cost, [](double before, double own) { return std::max(before, own); })[count][size]
          .value;
  const CutTable best = cutTable(n, parts, cost, [largest](double before, double own) {
    return own > largest ? std::numeric_limits<double>::infinity() : before + own * own;
  });
  std::int64_t end = n;
  for (std::size_t p = count; p > 1; --p) {
    end = best[p][end].from;
    cuts[p - 2] = end;
  }
  return cuts;
}

} // namespace partita
