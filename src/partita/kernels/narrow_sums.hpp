#pragma once

#include "partita/core/channels.hpp"

#include <algorithm>

namespace partita::narrow {

#ifdef PARTITA_LANE_VECTORS

/// The next loop, of at most eight iterations, is unrolled, so that arrays that it indexes become registers.
#if defined(__clang__)
#define PARTITA_UNROLL _Pragma("unroll")
#else
#define PARTITA_UNROLL _Pragma("GCC unroll 8")
#endif

/// The most outputs of a tile, in halves of a vector of 16: the sums for six windows fit into the registers,
/// except for doubles with SSE2.
constexpr int half_width = 8,
              most_halves = std::max(1, vector_registers / 8 * values_per_vector / half_width);

/// The same vector, held in a register. Otherwise compilers would read its number again for each vector that
/// it is multiplied by, and loads would take longer than products.
template <class Values>
KOKKOS_FORCEINLINE_FUNCTION Values inRegister(Values values) {
#ifdef __AVX__
  if constexpr (sizeof(Values) >= 32) asm("" : "+v"(values));
#endif
  return values;
}

/// The same for an address. Otherwise compilers would keep the differences of several addresses in memory.
KOKKOS_FORCEINLINE_FUNCTION const Real* inRegister(const Real* address) {
  asm("" : "+r"(address));
  return address;
}

/// Sums for neighbouring outputs: whole vectors and, where these have 16 values and `Halves` is odd, half a
/// one.
template <int Halves>
struct Sums {
  static constexpr std::int64_t width = std::int64_t{Halves} * half_width, length = values_per_vector,
                                full = width / length;
  static constexpr bool rest = width % length > 0;
  using Wide = Lanes<values_per_vector>;
  using Half = Lanes<rest ? half_width : 1>;
  typename Wide::Values wide[full > 0 ? full : 1];
  typename Half::Values last;

  KOKKOS_FORCEINLINE_FUNCTION void load(const Real* from) {
    PARTITA_UNROLL
    for (std::int64_t i = 0; i < full; ++i) wide[i] = Wide::load(from + i * length);
    if constexpr (rest) last = Half::load(from + full * length);
  }
  KOKKOS_FORCEINLINE_FUNCTION void store(Real* to) const {
    PARTITA_UNROLL
    for (std::int64_t i = 0; i < full; ++i) Wide::store(to + i * length, wide[i]);
    if constexpr (rest) Half::store(to + full * length, last);
  }
  KOKKOS_FORCEINLINE_FUNCTION void storeSome(Real* to, std::int64_t count) const {
    Real all[width];
    store(all);
    for (std::int64_t i = 0; i < count; ++i) to[i] = all[i];
  }
  KOKKOS_FORCEINLINE_FUNCTION void add(Real factor, const Sums& what) {
    const auto factors = inRegister(factor - typename Wide::Values{});
    PARTITA_UNROLL
    for (std::int64_t i = 0; i < full; ++i) wide[i] += factors * what.wide[i];
    if constexpr (rest) {
      typename Half::Values half;
      memcpy(&half, &factors, sizeof half);
      last += half * what.last;
    }
  }
  /// NaN stays NaN.
  KOKKOS_FORCEINLINE_FUNCTION void dropNegative() {
    const auto none = Wide::all(0);
    PARTITA_UNROLL
    for (std::int64_t i = 0; i < full; ++i) wide[i] = wide[i] <= none ? none : wide[i];
    if constexpr (rest) last = last <= Half::all(0) ? Half::all(0) : last;
  }
};

/// How many of `count` sums a tile takes at a time: from `fewest` to six, so that the last tile leaves few of
/// them unused.
inline std::int64_t sumsAtOnce(std::int64_t count, std::int64_t fewest) {
  const auto computed = [count](std::int64_t each) { return (count + each - 1) / each * each; };
  std::int64_t best = 6;
  for (std::int64_t each = best - 1; each >= fewest; --each)
    if (computed(each) < computed(best)) best = each;
  return best;
}

/// Calls body(Sums, first output) for all outputs, as many at a time as registers can hold.
template <int Halves = most_halves, class Body>
KOKKOS_INLINE_FUNCTION void forStrips(std::int64_t first, std::int64_t outputs, const Body& body) {
  using S = Sums<Halves>;
  for (; outputs - first > S::width - half_width; first += S::width) body(S(), first);
  if constexpr (Halves > 1) forStrips<Halves - 1>(first, outputs, body);
}

#endif

} // namespace partita::narrow
