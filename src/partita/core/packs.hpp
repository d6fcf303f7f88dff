#pragma once

#include "partita/core/channels.hpp"
#include "partita/core/pack.hpp"

#include <cstdint>

/// Element-wise kernels that compute several neighbouring values at once on a device. With one 16-bit number
/// per thread, too few bytes are on their way at a time to use the bandwidth of its memory; with eight, a
/// thread reads and writes 16 bytes at once, and computes rows and columns once for them. Hosts compute one
/// value after the other, in loops that compilers vectorise.
namespace partita {

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
