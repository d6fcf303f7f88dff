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

/// How the values of an image or a volume lie in memory: place by place, the channels of a place side by
/// side, as products, norms and libraries want them. Whatever numbers these values (files, parameters, random
/// numbers) counts them in the order of the shape, channel by channel. Vectors and sequences lie in the order
/// of their shape.
struct ImageLayout {
  std::int64_t channels = 1, places = 1;

  /// Is memory in the order of the shape?
  bool trivial() const { return channels == 1 || places == 1; }
};

inline ImageLayout layoutOf(const Shape& shape) {
  const std::int64_t values = valuesOf(shape);
  if (shape.size() < 3) return {1, values};
  return {shape.front(), values / shape.front()};
}

/// "1x28x28"
inline std::string toText(const Shape& shape) {
  return joined(shape, "x");
}

} // namespace partita
