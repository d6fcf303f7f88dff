#pragma once

#include "partita/core/math.hpp"
#include "partita/core/rows.hpp"

/// Exponentials of the values of a row, less its largest one, for kernels of `forEachRow`.
namespace partita {

/// out[c] = exp(z[c] - largest); returns their sum. `out` may be `z`.
template <class Row>
KOKKOS_INLINE_FUNCTION Real expRow(const Row& row, const Real* z, Real largest, std::int64_t count,
                                   Real* out) {
  row.each(count, [=](std::int64_t c) { out[c] = rowExp(z[c] - largest); });
  return row.sumStrided(count, [=](std::int64_t c) { return out[c]; });
}

/// The sum of exp(z - largest), on hosts from first to last.
template <class Row, class Stored>
KOKKOS_INLINE_FUNCTION Real expSum(const Row& row, const Stored* z, Real largest, std::int64_t count) {
  if constexpr (device_is_host && !Row::recomputes) {
    constexpr std::int64_t at_once = 64; // which vectorise; the sum in order would not
    Real sum = 0;
    for (std::int64_t first = 0; first < count; first += at_once) {
      const std::int64_t left = count - first, size = left < at_once ? left : at_once;
      Real values[at_once];
      PARTITA_INDEPENDENT
      for (std::int64_t c = 0; c < size; ++c) values[c] = rowExp(toReal(z[first + c]) - largest);
      for (std::int64_t c = 0; c < size; ++c) sum += values[c];
    }
    return sum;
  } else {
    return row.sumOf(z, count, [=](Real value, std::int64_t) { return rowExp(value - largest); });
  }
}

} // namespace partita
