#pragma once

#include "partita/core/channels.hpp"

namespace partita::narrow {

#ifdef PARTITA_LANE_VECTORS

/// What a tile of sums may take of the registers.
#ifdef __AVX512F__
constexpr int most_halves = 8;
#else
constexpr int most_halves = 2;
#endif

/// The same vector, held in a register. Otherwise compilers would read its number again for each vector that
/// it is multiplied by, and loads would take longer than products.
template <class Values>
KOKKOS_FORCEINLINE_FUNCTION Values inRegister(Values values) {
#ifdef __AVX512F__
  if constexpr (sizeof(Values) == 64) asm("" : "+v"(values));
#endif
  return values;
}

/// Sums for neighbouring outputs: vectors of 16, and half a vector if `Halves` is odd.
template <int Halves>
struct Sums {
  static constexpr std::int64_t full = Halves / 2, half_width = 8, width = Halves * half_width;
  static constexpr bool rest = Halves % 2 == 1;
  Lanes<16>::Values wide[full > 0 ? full : 1];
  Lanes<8>::Values last;

  KOKKOS_FORCEINLINE_FUNCTION void load(const Real* from) {
    for (std::int64_t i = 0; i < full; ++i) wide[i] = Lanes<16>::load(from + i * 16);
    if (rest) last = Lanes<8>::load(from + full * 16);
  }
  KOKKOS_FORCEINLINE_FUNCTION void store(Real* to) const {
    for (std::int64_t i = 0; i < full; ++i) Lanes<16>::store(to + i * 16, wide[i]);
    if (rest) Lanes<8>::store(to + full * 16, last);
  }
  KOKKOS_FORCEINLINE_FUNCTION void storeSome(Real* to, std::int64_t count) const {
    Real all[width];
    store(all);
    for (std::int64_t i = 0; i < count; ++i) to[i] = all[i];
  }
  KOKKOS_FORCEINLINE_FUNCTION void add(Real factor, const Sums& what) {
    const auto factors = inRegister(factor - typename Lanes<16>::Values{});
    for (std::int64_t i = 0; i < full; ++i) wide[i] += factors * what.wide[i];
    if (rest) {
      Lanes<8>::Values half;
      memcpy(&half, &factors, sizeof half);
      last += half * what.last;
    }
  }
  KOKKOS_FORCEINLINE_FUNCTION void dropNegative() {
    const auto none = Lanes<16>::all(0);
    for (std::int64_t i = 0; i < full; ++i) wide[i] = wide[i] > none ? wide[i] : none;
    if (rest) last = last > Lanes<8>::all(0) ? last : Lanes<8>::all(0);
  }
};

/// Calls body(Sums, first output) for all outputs, as many at a time as registers can hold.
template <int Halves = most_halves, class Body>
KOKKOS_INLINE_FUNCTION void forStrips(std::int64_t first, std::int64_t outputs, const Body& body) {
  using S = Sums<Halves>;
  for (; outputs - first > S::width - S::half_width; first += S::width) body(S(), first);
  if constexpr (Halves > 1) forStrips<Halves - 1>(first, outputs, body);
}

#endif

} // namespace partita::narrow
