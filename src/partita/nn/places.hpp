#pragma once

#include "partita/core/loops.hpp"
#include "partita/core/pack.hpp"

#include <cstdint>

namespace partita {

/// A place of an image with three axes, and its number among the places of all rows of the batch.
struct PlaceAt {
  std::int64_t row, z, y, x, index;
};

namespace detail {

template <class Body>
struct LineOfPlaces {
  Body body;
  std::int64_t planes, lines, places, channels; // of an image
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t line) const {
    const Body local = body;
    const std::int64_t plane = line / lines, row = plane / planes;
    PlaceAt at{row, plane - row * planes, line - plane * lines, 0, line * places};
    for (; at.x < places; ++at.x, ++at.index) local(at, std::int64_t{0}, channels);
  }
};

/// `Width` channels of a place.
template <class Body, int Width>
struct OnePlace {
  Body body;
  std::int64_t planes, lines, places;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t index, std::int64_t number) const {
    const std::int64_t line = index / places, plane = line / lines, row = plane / planes;
    const PlaceAt at{row, plane - row * planes, line - plane * lines, index - line * places, index};
    body(at, number * Width, (number + 1) * Width);
  }
};

} // namespace detail

/// Calls body(at, begin, end) for all places of `rows` images with three axes, and channels [begin, end): on
/// devices those of a pack if body.aligned() says that all operands may be read in packs, and otherwise one.
template <class Body>
void forEachPlace(const ExecSpace& space, const char* label, std::int64_t rows,
                  const std::int64_t (&extents)[3], std::int64_t channels, const Body& body) {
  const std::int64_t planes = extents[0], lines = extents[1], places = extents[2];
  if constexpr (device_is_host)
    Kokkos::parallel_for(label, Range(space, 0, rows * planes * lines),
                         detail::LineOfPlaces<Body>{body, planes, lines, places, channels});
  else if (channels % values_per_pack == 0 && body.aligned())
    forEachElement(space, label, rows * planes * lines * places, channels / values_per_pack,
                   detail::OnePlace<Body, values_per_pack>{body, planes, lines, places});
  else
    forEachElement(space, label, rows * planes * lines * places, channels,
                   detail::OnePlace<Body, 1>{body, planes, lines, places});
}

} // namespace partita
