#pragma once

#include "partita/plan/tensor_slice.hpp"

#include <string>
#include <vector>

namespace partita::test {

/// Ways to divide the first two axes of every tensor.
struct Division {
  std::int64_t rows, columns;
  bool even; ///< otherwise the first parts are small

  std::string text() const {
    return std::to_string(rows) + " x " + std::to_string(columns) + (even ? "" : ", uneven");
  }
};

inline std::vector<Division> someDivisions() {
  return {{1, 1, true}, {2, 2, true}, {2, 2, false}, {4, 1, true}, {4, 1, false}, {1, 3, false}};
}

/// The slices of a tensor in row-major order of the division; some may be empty.
inline std::vector<TensorSlice> slicesOf(const Division& division, const std::vector<std::int64_t>& extents) {
  const auto cut = [&](std::int64_t extent, std::int64_t i, std::int64_t parts) {
    return division.even ? extent * i / parts : extent * i * i / (parts * parts);
  };
  std::vector<TensorSlice> slices;
  const std::int64_t columns = extents.size() > 1 ? division.columns : 1;
  for (std::int64_t row = 0; row < division.rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      TensorSlice slice = wholeOf(extents);
      slice.offset[0] = cut(extents[0], row, division.rows);
      slice.extents[0] = cut(extents[0], row + 1, division.rows) - slice.offset[0];
      if (columns > 1) {
        slice.offset[1] = cut(extents[1], column, columns);
        slice.extents[1] = cut(extents[1], column + 1, columns) - slice.offset[1];
      }
      slices.push_back(slice);
    }
  }
  return slices;
}

/// The values of its tensor that a slice holds, in order.
template <class Value>
std::vector<Value> partOf(const std::vector<Value>& whole, const TensorSlice& slice) {
  std::vector<Value> part;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    bool inside = true;
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t axis = slice.whole.size(); axis-- > 0; rest /= slice.whole[axis]) {
      const std::int64_t index = rest % slice.whole[axis] - slice.offset[axis];
      inside = inside && index >= 0 && index < slice.extents[axis];
    }
    if (inside) part.push_back(whole[i]);
  }
  return part;
}

} // namespace partita::test
