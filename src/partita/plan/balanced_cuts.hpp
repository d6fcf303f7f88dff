#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace partita {

using PartCost = std::function<double(std::int64_t first, std::int64_t last, int part)>;

/// Exact balanced contiguous partition: the `parts - 1` cuts of 0..n that make the largest cost(first, last,
/// part) smallest; among these, those with the smallest sum of squares. Two dynamic programmes, O(n^2 parts);
/// throws UserError if they would take hours. `least`, if any, is at most `cost` and does not grow as a part
/// gets shorter: of most parts the search then needs not even this bound. No cost is negative.
std::vector<std::int64_t> balancedCuts(std::int64_t n, int parts, const PartCost& cost,
                                       const PartCost& least = nullptr);

/// The same for costs that add up: `before[i]` is the cost of 0..i.
std::vector<std::int64_t> balancedCuts(const std::vector<double>& before, int parts);

} // namespace partita
