#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace partita {

/// Are all these values in host memory finite? It counts, which compilers vectorise, because an end at the
/// first bad value would make the usual case several times slower.
template <class Number>
bool allFinite(const Number* values, std::int64_t count) {
  return std::count_if(values, values + count, [](Number value) { return !std::isfinite(value); }) == 0;
}

} // namespace partita
