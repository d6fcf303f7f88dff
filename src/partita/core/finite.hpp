#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace partita {

/// Are all these values in host memory finite? Counts instead of stopping at the first bad value: compilers
/// vectorise that, so the usual case is several times faster.
template <class Number>
bool allFinite(const Number* values, std::int64_t count) {
  return std::count_if(values, values + count, [](Number value) { return !std::isfinite(value); }) == 0;
}

} // namespace partita
