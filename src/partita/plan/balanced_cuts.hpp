#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace partita {

using PartCost = std::function<double(std::int64_t first, std::int64_t last, int part)>;

/// Exact balanced contiguous partition: the `parts - 1` cuts of 0..n that make the largest cost(first, last,
/// part) smallest; among these, those with the smallest sum of squares. Two dynamic programmes, O(n^2 parts);
/// throws UserError if they may take hours. `lower_bound`, if given, is a lower bound of `cost` that does not
/// decrease when the part begins earlier or ends later; the search then skips most parts. Costs are not
/// negative. Parts of infinite cost are impossible; if every partition has such a part, the returned cuts are
/// invalid: all are 0. With 1 or n parts, `cost` is not called.
std::vector<std::int64_t> balancedCuts(std::int64_t n, int parts, const PartCost& cost,
                                       const PartCost& lower_bound = nullptr);

/// The same for costs that add up: `before[i]` is the cost of 0..i.
std::vector<std::int64_t> balancedCuts(const std::vector<double>& before, int parts);

} // namespace partita
