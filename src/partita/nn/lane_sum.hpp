#pragma once

#include "partita/core/loops.hpp"

namespace partita {

/// Sum of term(i) for i < n by one work item. On a host several sums run side by side, which the compiler
/// vectorises; their order is always the same.
template <class Term>
KOKKOS_INLINE_FUNCTION Real laneSum(std::int64_t n, const Term& term) {
  constexpr int lanes = device_is_host ? 16 : 1;
  Real sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    PARTITA_INDEPENDENT
    for (int lane = 0; lane < lanes; ++lane) sums[lane] += term(i + lane);
  }
  for (; i < n; ++i) sums[0] += term(i);
  for (int lane = 1; lane < lanes; ++lane) sums[0] += sums[lane];
  return sums[0];
}

} // namespace partita
