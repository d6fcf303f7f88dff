#pragma once

#include "partita/core/image_layout.hpp"

#include "support/matrices.hpp"

namespace partita::test {

/// Samples whose values are in the order of their shape, as tests and files have them -> as they lie in
/// memory.
inline Values asInMemory(const Values& values, const Shape& shape) {
  const ImageLayout layout = layoutOf(shape);
  const std::int64_t width = layout.channels * layout.places;
  Values moved(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i), begin = number / width * width;
    moved[static_cast<std::size_t>(begin + inMemory(layout, number - begin))] = values[i];
  }
  return moved;
}

/// The reverse.
inline Values asInShape(const Values& values, const Shape& shape) {
  const ImageLayout layout = layoutOf(shape);
  return asInMemory(values, {layout.places, layout.channels, 1});
}

} // namespace partita::test
