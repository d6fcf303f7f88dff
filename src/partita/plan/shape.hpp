#pragma once

#include "partita/config/text.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

/// Extents of one sample, slowest first: {values}, {positions, width} of a sequence, {channels, rows,
/// columns} of an image, {channels, depth, rows, columns} of a volume.
using Shape = std::vector<std::int64_t>;

inline std::int64_t valuesOf(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

inline bool isSequence(const Shape& shape) {
  return shape.size() == 2;
}

/// "1x28x28"
inline std::string toText(const Shape& shape) {
  return joined(shape, "x");
}

} // namespace partita
