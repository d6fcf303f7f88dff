#pragma once

#include "partita/core/types.hpp"

namespace partita {

/// Small dense products inside a kernel: the processor's vectors on hosts, one value at a time on devices,
/// whose compilers know no such types.

#if (defined(__GNUC__) || defined(__clang__)) && !defined(KOKKOS_ENABLE_CUDA) && !defined(KOKKOS_ENABLE_HIP)
/// As many values as fit into 64 bytes; compilers split them where the processor's vectors are shorter.
using Lanes = Real __attribute__((vector_size(64)));
using LanesInMemory = Real __attribute__((vector_size(64), aligned(alignof(Real)), may_alias));
constexpr int lanes = 64 / static_cast<int>(sizeof(Real));
#else
using Lanes = Real;
using LanesInMemory = Real;
constexpr int lanes = 1;
#endif

/// A matrix that is read one value at a time: element (i, k) lies at i x row + k x column.
struct Scattered {
  const Real* data;
  std::int64_t row, column;
};

namespace detail {

/// C += A B for `R` rows of A and `L` times `lanes` columns of B, all sums in registers.
template <int R, int L>
KOKKOS_INLINE_FUNCTION void addProductTile(std::int64_t depth, const Scattered& a, const Real* b,
                                           std::int64_t b_row, Real* c, std::int64_t c_row) {
  Lanes sums[R][L];
  for (int r = 0; r < R; ++r)
    for (int l = 0; l < L; ++l)
      sums[r][l] = *reinterpret_cast<const LanesInMemory*>(c + r * c_row + l * lanes);
  for (std::int64_t k = 0; k < depth; ++k) {
    Lanes right[L];
    for (int l = 0; l < L; ++l) right[l] = *reinterpret_cast<const LanesInMemory*>(b + k * b_row + l * lanes);
    for (int r = 0; r < R; ++r) {
      const Real left = a.data[r * a.row + k * a.column];
      for (int l = 0; l < L; ++l) sums[r][l] += left * right[l];
    }
  }
  for (int r = 0; r < R; ++r)
    for (int l = 0; l < L; ++l) *reinterpret_cast<LanesInMemory*>(c + r * c_row + l * lanes) = sums[r][l];
}

/// The same for all rows, `R` at a time.
template <int R, int L>
KOKKOS_INLINE_FUNCTION void addProductStrip(std::int64_t rows, std::int64_t depth, const Scattered& a,
                                            const Real* b, std::int64_t b_row, Real* c, std::int64_t c_row) {
  std::int64_t i = 0;
  for (; i + R <= rows; i += R)
    addProductTile<R, L>(depth, {a.data + i * a.row, a.row, a.column}, b, b_row, c + i * c_row, c_row);
  for (; i < rows; ++i)
    addProductTile<1, L>(depth, {a.data + i * a.row, a.row, a.column}, b, b_row, c + i * c_row, c_row);
}

} // namespace detail

/// C [rows, columns] += A [rows, depth] B [depth, columns]; rows of B and C lie `b_row` and `c_row` values
/// apart.
KOKKOS_INLINE_FUNCTION void addProduct(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                                       const Scattered& a, const Real* b, std::int64_t b_row, Real* c,
                                       std::int64_t c_row) {
  std::int64_t j = 0;
  for (; j + 4 * lanes <= columns; j += 4 * lanes)
    detail::addProductStrip<4, 4>(rows, depth, a, b + j, b_row, c + j, c_row);
  for (; j + 2 * lanes <= columns; j += 2 * lanes)
    detail::addProductStrip<8, 2>(rows, depth, a, b + j, b_row, c + j, c_row);
  for (; j + lanes <= columns; j += lanes)
    detail::addProductStrip<8, 1>(rows, depth, a, b + j, b_row, c + j, c_row);
  for (std::int64_t i = 0; i < rows && j < columns; ++i) {
    for (std::int64_t k = 0; k < depth; ++k) {
      const Real left = a.data[i * a.row + k * a.column];
      for (std::int64_t last = j; last < columns; ++last) c[i * c_row + last] += left * b[k * b_row + last];
    }
  }
}

} // namespace partita
