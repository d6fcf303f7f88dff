#include "partita/plan/balanced_cuts.hpp"

#include "partita/config/user_error.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

namespace partita {

namespace {

constexpr double impossible = std::numeric_limits<double>::infinity();

/// Between `good`, for which a condition holds, and `bad`, for which it does not: the last one for which it
/// holds.
template <class Condition>
std::int64_t lastWhere(std::int64_t good, std::int64_t bad, const Condition& holds) {
  while (std::abs(bad - good) > 1) {
    const std::int64_t middle = (good + bad) / 2;
    (holds(middle) ? good : bad) = middle;
  }
  return good;
}

/// The ends of all parts if each part in turn is as long as a limit on its bound allows. The last one takes
/// the rest.
template <class Bound>
std::vector<std::int64_t> longestParts(std::int64_t n, int parts, const Bound& lower_bound, double limit) {
  std::vector<std::int64_t> ends;
  std::int64_t from = 0;
  for (int part = 0; part + 1 < parts; ++part) {
    from = lastWhere(from + 1, n - (parts - part) + 2,
                     [&](std::int64_t end) { return lower_bound(from, end, part) <= limit; });
    ends.push_back(from);
  }
  ends.push_back(n);
  return ends;
}

template <class Cost>
double largestOf(const std::vector<std::int64_t>& ends, const Cost& cost) {
  double largest = 0.0;
  std::int64_t from = 0;
  for (std::size_t part = 0; part < ends.size(); ++part) {
    largest = std::max(largest, cost(from, ends[part], static_cast<int>(part)));
    from = ends[part];
  }
  return largest;
}

/// The largest cost in a partition that balances the bounds; infinite if the bounds are of no use.
template <class Cost, class Bound>
double achievableCost(std::int64_t n, int parts, const Cost& cost, const Bound& lower_bound) {
  constexpr double exact_enough = 1e-6;
  double low = 0.0, high = lower_bound(0, n, 0);
  if (!std::isfinite(high)) return impossible;
  std::vector<std::int64_t> best = longestParts(n, parts, lower_bound, high);
  while (high - low > exact_enough * high) {
    const double limit = low + 0.5 * (high - low);
    std::vector<std::int64_t> ends = longestParts(n, parts, lower_bound, limit);
    const double largest = largestOf(ends, lower_bound);
    if (largest <= limit) best = std::move(ends);
    (largest <= limit ? high : low) = std::min(largest, limit);
  }
  return largestOf(best, cost);
}

/// The first and the last place where a part may end.
struct EndRange {
  std::int64_t first = 0, last = 0;
};

/// The ends of the first 0..parts parts of partitions that leave each part something, and that exceed `limit`
/// in no bound.
template <class Bound>
std::vector<EndRange> endsWithin(std::int64_t n, int parts, const Bound& lower_bound, double limit) {
  std::vector<EndRange> ends{{0, 0}};
  for (int part = 1; part < parts; ++part) ends.push_back({part, n - (parts - part)});
  ends.push_back({n, n});
  if (limit == impossible) return ends;
  for (int part = 1; part < parts; ++part) {
    const std::int64_t from = ends[part - 1].last;
    ends[part].last = lastWhere(from, ends[part].last + 1,
                                [&](std::int64_t end) { return lower_bound(from, end, part - 1) <= limit; });
  }
  for (int part = parts - 1; part > 0; --part) {
    const std::int64_t end = ends[part + 1].first;
    ends[part].first = lastWhere(end, ends[part].first - 1,
                                 [&](std::int64_t from) { return lower_bound(from, end, part) <= limit; });
  }
  return ends;
}

/// A partial solution for cutting 0..n: where its last part begins, and its cost.
struct PartialCut {
  double value = impossible;
  std::int64_t from = 0;
};

/// The partial solutions with the same number of parts, by their ends.
struct CutRow {
  explicit CutRow(const EndRange& its_ends) : ends(its_ends), cuts(ends.last - ends.first + 1) {}

  PartialCut& at(std::int64_t end) { return cuts[static_cast<std::size_t>(end - ends.first)]; }

  EndRange ends;
  std::vector<PartialCut> cuts;
};

/// The best ways to cut 0..end into 1..parts parts, for every end in a range; `join` combines a part's cost
/// with the value of the parts before it, and is never smaller than that value. Values above `most` are left
/// out. Among equal ways, the earliest last cut wins.
template <class Cost, class Bound, class Join>
std::vector<CutRow> cutTable(const std::vector<EndRange>& ends, double most, const Cost& cost,
                             const Bound& lower_bound, const Join& join) {
  std::vector<CutRow> best(ends.begin(), ends.end());
  best[0].at(0).value = 0.0;
  for (std::size_t p = 1; p < best.size(); ++p) {
    const int part = static_cast<int>(p) - 1;
    CutRow &shorter = best[p - 1], &row = best[p];
    for (std::int64_t end = row.ends.first; end <= row.ends.last; ++end) {
      const auto value_from = [&](std::int64_t from) {
        const double before = shorter.at(from).value;
        const double value = before < impossible ? join(before, cost(from, end, part)) : impossible;
        return value < impossible ? value : impossible; // not NaN
      };
      PartialCut& here = row.at(end);
      double limit = most; // the best is no larger
      if (end > row.ends.first && row.at(end - 1).value < impossible)
        limit = std::min(limit, value_from(row.at(end - 1).from));
      for (std::int64_t from = std::min(end - 1, shorter.ends.last); from >= shorter.ends.first; --from) {
        const double before = shorter.at(from).value;
        if (before > limit || before == impossible) continue;
        const double bound = join(0.0, lower_bound(from, end, part));
        if (bound > limit || bound == impossible) break; // longer parts cost even more
        const double value = value_from(from);
        if (value > limit || value == impossible) continue;
        here = {value, from};
        limit = value;
      }
    }
  }
  return best;
}

/// `balancedCuts`. The cost that cuts by the bounds achieve limits where parts may end: only such ends are
/// tried.
template <class Cost, class Bound>
std::vector<std::int64_t> bestCuts(std::int64_t n, int parts, const Cost& cost, const Bound& lower_bound) {
  std::vector<std::int64_t> cuts(static_cast<std::size_t>(parts) - 1);
  std::iota(cuts.begin(), cuts.end(), std::int64_t{1});
  if (parts == 1 || parts == n) return cuts;
  constexpr double most_costs = 1e9; // to compare: minutes
  if (0.5 * static_cast<double>(n) * static_cast<double>(n) * (parts - 2) > most_costs)
    throw UserError("strategy/stages: balancing " + std::to_string(n) + " layers or stages over " +
                    std::to_string(parts) + " parts may take hours");
  if (parts > n) return std::vector<std::int64_t>(cuts.size(), 0);
  const double achievable = achievableCost(n, parts, cost, lower_bound);
  std::vector<EndRange> ends = endsWithin(n, parts, lower_bound, achievable);
  const double largest = cutTable(ends, achievable, cost, lower_bound,
                                  [](double before, double own) { return std::max(before, own); })
                             .back()
                             .at(n)
                             .value;
  if (largest == impossible) return std::vector<std::int64_t>(cuts.size(), 0);
  if (achievable < impossible) ends = endsWithin(n, parts, lower_bound, largest);
  std::vector<CutRow> best =
      cutTable(ends, impossible, cost, lower_bound, [largest](double before, double own) {
        return own > largest ? impossible : before + own * own;
      });
  std::int64_t end = n;
  for (std::size_t p = best.size() - 1; p > 1; --p) {
    end = best[p].at(end).from;
    cuts[p - 2] = end;
  }
  return cuts;
}

} // namespace

std::vector<std::int64_t> balancedCuts(std::int64_t n, int parts, const PartCost& cost,
                                       const PartCost& lower_bound) {
  if (lower_bound) return bestCuts(n, parts, cost, lower_bound);
  return bestCuts(n, parts, cost, [](std::int64_t, std::int64_t, int) { return 0.0; });
}

std::vector<std::int64_t> balancedCuts(const std::vector<double>& before, int parts) {
  const auto cost = [&](std::int64_t first, std::int64_t last, int) {
    return before[static_cast<std::size_t>(last)] - before[static_cast<std::size_t>(first)];
  };
  return bestCuts(static_cast<std::int64_t>(before.size()) - 1, parts, cost, cost);
}

} // namespace partita
