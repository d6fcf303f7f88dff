#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace partita {

/// Exact balanced contiguous partition: the `parts - 1` cuts of 0..n that make the largest cost(first, last,
/// part) smallest; among these, those with the smallest sum of squares. Two dynamic programmes, O(n^2 parts);
/// throws UserError if they would take hours.
std::vector<std::int64_t> balancedCuts(std::int64_t n, int parts,
                                       const std::function<double(std::int64_t, std::int64_t, int)>& cost);

} // namespace partita
