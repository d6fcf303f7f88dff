#pragma once

#include "partita/core/channels.hpp"

#include <cstdint>
#include <cstring>

/// Element-wise kernels that compute several neighbouring values at once on a device. With one 16-bit number
/// per thread, too few bytes are on their way at a time to use the bandwidth of its memory; with eight, a
/// thread reads and writes 16 bytes at once, and computes rows and columns once for them. Hosts compute one
/// value after the other, in loops that compilers vectorise.
namespace partita {

/// `Count` neighbouring values in registers, and how they are read, computed and written.
template <int Count>
struct Pack {
  struct Values {
    Real of[Count];
  };

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

namespace detail {

/// The body of a kernel for one value at a time.
template <class Body>
struct OneByOne {
  Body body;
  template <class... Place>
  KOKKOS_INLINE_FUNCTION void operator()(Place... place) const {
    body(Pack<1>(), place...);
  }
};

template <class Body>
struct FlatPacks {
  Body body;
  std::int64_t size;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t pack) const {
    std::int64_t i = pack * values_per_pack;
    if (i + values_per_pack <= size) return body(Pack<values_per_pack>(), i);
    for (; i < size; ++i) body(Pack<1>(), i);
  }
};

template <class Body>
struct RowPacks {
  Body body;
  std::int64_t packs; // of a row
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t pack) const {
    const std::int64_t row = pack / packs;
    body(Pack<values_per_pack>(), row, (pack - row * packs) * values_per_pack);
  }
};

/// The same for images, whose rows are those of their places.
template <class Body>
struct PackOfPlace {
  Body body;
  std::int64_t places;
  template <class Values>
  KOKKOS_INLINE_FUNCTION void operator()(const Values& values, std::int64_t index,
                                         std::int64_t channel) const {
    const std::int64_t row = index / places;
    body(values, row, index - row * places, channel);
  }
};

} // namespace detail

/// Calls body(pack, i) for all values of a flat buffer, where `pack` is a Pack of those from i on; values
/// must be independent. If `aligned` is set, all operands may be read in packs from the first value on.
template <class Body>
void forEachPack(const ExecSpace& space, const char* label, std::int64_t size, bool aligned,
                 const Body& body) {
  if constexpr (row_teams) {
    if (aligned) {
      const std::int64_t packs = (size + values_per_pack - 1) / values_per_pack;
      Kokkos::parallel_for(label, Range(space, 0, packs), detail::FlatPacks<Body>{body, size});
      return;
    }
  }
  forEachValue(space, label, size, detail::OneByOne<Body>{body});
}

/// Calls body(pack, row, column) for all values of a [rows, columns] matrix.
template <class Body>
void forEachPack(const ExecSpace& space, const char* label, std::int64_t rows, std::int64_t columns,
                 bool aligned, const Body& body) {
  if constexpr (row_teams) {
    if (aligned && columns % values_per_pack == 0) {
      const std::int64_t packs = columns / values_per_pack;
      Kokkos::parallel_for(label, Range(space, 0, rows * packs), detail::RowPacks<Body>{body, packs});
      return;
    }
  }
  forEachElement(space, label, rows, columns, detail::OneByOne<Body>{body});
}

/// Calls body(pack, row, place, channel) for all values of images [rows, places, channels].
template <class Body>
void forEachChannelPack(const ExecSpace& space, const char* label, std::int64_t rows, std::int64_t places,
                        std::int64_t channels, bool aligned, const Body& body) {
  if constexpr (row_teams) {
    if (aligned && channels % values_per_pack == 0)
      return forEachPack(space, label, rows * places, channels, aligned,
                         detail::PackOfPlace<Body>{body, places});
  }
  forEachChannel(space, label, rows, places, channels, detail::OneByOne<Body>{body});
}

} // namespace partita
