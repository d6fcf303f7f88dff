#pragma once

#include "partita/core/typed_span.hpp"

#include <cstdint>

namespace partita {

/// `Count` neighbouring values in registers, and how they are read, computed and written.
template <int Count>
struct Pack {
  static constexpr int count = Count;
  struct Values {
    Real of[Count];
  };

  KOKKOS_INLINE_FUNCTION static Values all(Real value) {
    Values values;
    for (int i = 0; i < Count; ++i) values.of[i] = value;
    return values;
  }
  KOKKOS_INLINE_FUNCTION static Real at(const Values& values, int i) { return values.of[i]; }

  /// Addresses are multiples of 16 bytes.
  template <class Stored>
  KOKKOS_INLINE_FUNCTION static Values load(const Stored* from) {
    Stored stored[Count];
    for (int k = 0; k < chunksOf<Stored>(); ++k) {
      const Chunk chunk = reinterpret_cast<const Chunk*>(from)[k];
      memcpy(reinterpret_cast<char*>(stored) + k * bytes, &chunk, bytes);
    }
    Values values;
    for (int i = 0; i < Count; ++i) values.of[i] = toReal(stored[i]);
    return values;
  }
  template <class Stored>
  KOKKOS_INLINE_FUNCTION static void store(Stored* to, const Values& values) {
    Stored stored[Count];
    for (int i = 0; i < Count; ++i) stored[i] = fromReal<Stored>(values.of[i]);
    for (int k = 0; k < chunksOf<Stored>(); ++k) {
      Chunk chunk;
      memcpy(&chunk, reinterpret_cast<const char*>(stored) + k * bytes, bytes);
      reinterpret_cast<Chunk*>(to)[k] = chunk;
    }
  }
  /// function(operand, ...) for each place in the packs.
  template <class Function, class... Operands>
  KOKKOS_INLINE_FUNCTION static Values map(const Function& function, const Operands&... operands) {
    Values result;
    for (int i = 0; i < Count; ++i) result.of[i] = function(operands.of[i]...);
    return result;
  }

 private:
  struct [[gnu::may_alias]] alignas(16) Chunk {
    std::uint32_t words[4];
  };
  static constexpr std::int64_t bytes = sizeof(Chunk);

  template <class Stored>
  KOKKOS_INLINE_FUNCTION static constexpr int chunksOf() {
    static_assert(Count * sizeof(Stored) % bytes == 0, "packs are whole chunks");
    return Count * sizeof(Stored) / bytes;
  }
};

template <>
struct Pack<1> {
  static constexpr int count = 1;
  using Values = Real;

  KOKKOS_INLINE_FUNCTION static Real all(Real value) { return value; }
  KOKKOS_INLINE_FUNCTION static Real at(Real value, int) { return value; }
  template <class Stored>
  KOKKOS_INLINE_FUNCTION static Real load(const Stored* from) {
    return toReal(*from);
  }
  template <class Stored>
  KOKKOS_INLINE_FUNCTION static void store(Stored* to, Real value) {
    *to = fromReal<Stored>(value);
  }
  template <class Function, class... Operands>
  KOKKOS_INLINE_FUNCTION static Real map(const Function& function, const Operands&... operands) {
    return function(operands...);
  }
};

constexpr int values_per_pack = 8;

/// May packs begin at these addresses? A null pointer stands for an operand that is not used.
template <class... Numbers>
KOKKOS_INLINE_FUNCTION bool alignedForPacks(const Numbers*... operands) {
  constexpr std::uintptr_t bytes = 16;
  return ((reinterpret_cast<std::uintptr_t>(operands) % bytes == 0) && ...);
}

/// Two values of a channel, or of each channel of a pack, which are summed at the same time.
template <class Values>
struct TwoOf {
  Values first, second;
};
using TwoValues = TwoOf<Real>;

} // namespace partita
