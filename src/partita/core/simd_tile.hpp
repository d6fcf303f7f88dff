#pragma once

#include "partita/core/types.hpp"

namespace partita {

/// Small dense products inside a kernel: SIMD vectors on hosts, one value at a time on devices, whose
/// compilers do not support vector types.

#if (defined(__GNUC__) || defined(__clang__)) && !defined(__CUDACC__) && !defined(__HIPCC__)
using SimdTile = Real __attribute__((vector_size(vector_bytes)));
/// The attributes follow the name: clang would ignore the alignment if it followed the type.
using SimdTileInMemory __attribute__((vector_size(vector_bytes), aligned(alignof(Real)), may_alias)) = Real;
static_assert(alignof(SimdTileInMemory) == alignof(Real), "parts of rows are read from any place");
constexpr std::int64_t lanes = values_per_vector;
#else
using SimdTile = Real;
using SimdTileInMemory = Real;
constexpr std::int64_t lanes = 1;
#endif

/// A matrix that is read one value at a time: element (i, k) is at index i * row + k * column.
struct Scattered {
  const Real* data;
  std::int64_t row, column;
};

namespace detail {

/// C = A B or C += A B for `R` rows of A and `L` * `lanes` columns of B, with all sums in registers.
template <bool Add, int R, int L>
KOKKOS_INLINE_FUNCTION void productTile(std::int64_t depth, const Scattered& a, const Real* b,
                                        std::int64_t b_row, Real* c, std::int64_t c_row) {
  SimdTile sums[R][L];
  for (int r = 0; r < R; ++r) {
    for (int l = 0; l < L; ++l) {
      sums[r][l] = SimdTile{};
      if (Add) sums[r][l] = *reinterpret_cast<const SimdTileInMemory*>(c + r * c_row + l * lanes);
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    SimdTile right[L];
    for (int l = 0; l < L; ++l)
      right[l] = *reinterpret_cast<const SimdTileInMemory*>(b + k * b_row + l * lanes);
    for (int r = 0; r < R; ++r) {
      const Real left = a.data[r * a.row + k * a.column];
      for (int l = 0; l < L; ++l) sums[r][l] += left * right[l];
    }
  }
  for (int r = 0; r < R; ++r)
    for (int l = 0; l < L; ++l) *reinterpret_cast<SimdTileInMemory*>(c + r * c_row + l * lanes) = sums[r][l];
}

/// The same for all rows, `R` at a time.
template <bool Add, int R, int L>
KOKKOS_INLINE_FUNCTION void productStrip(std::int64_t rows, std::int64_t depth, const Scattered& a,
                                         const Real* b, std::int64_t b_row, Real* c, std::int64_t c_row) {
  std::int64_t i = 0;
  for (; i + R <= rows; i += R)
    productTile<Add, R, L>(depth, {a.data + i * a.row, a.row, a.column}, b, b_row, c + i * c_row, c_row);
  for (; i < rows; ++i)
    productTile<Add, 1, L>(depth, {a.data + i * a.row, a.row, a.column}, b, b_row, c + i * c_row, c_row);
}

} // namespace detail

/// C [rows, columns] = A [rows, depth] B [depth, columns], added to the previous contents if `Add` is set;
/// rows of B and C are `b_row` and `c_row` values apart.
template <bool Add>
KOKKOS_INLINE_FUNCTION void product(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                                    const Scattered& a, const Real* b, std::int64_t b_row, Real* c,
                                    std::int64_t c_row) {
  constexpr int many = vector_registers / 4; // rows of two vectors each: sums fill half of the registers
  std::int64_t j = 0;
  if constexpr (vector_registers > 16) {
    for (; j + 4 * lanes <= columns; j += 4 * lanes)
      detail::productStrip<Add, 4, 4>(rows, depth, a, b + j, b_row, c + j, c_row);
  }
  for (; j + 2 * lanes <= columns; j += 2 * lanes)
    detail::productStrip<Add, many, 2>(rows, depth, a, b + j, b_row, c + j, c_row);
  for (; j + lanes <= columns; j += lanes)
    detail::productStrip<Add, 8, 1>(rows, depth, a, b + j, b_row, c + j, c_row);
  for (std::int64_t i = 0; i < rows && j < columns; ++i) {
    Real* c_rest = c + i * c_row;
    for (std::int64_t last = j; last < columns && !Add; ++last) c_rest[last] = 0;
    for (std::int64_t k = 0; k < depth; ++k) {
      const Real left = a.data[i * a.row + k * a.column];
      for (std::int64_t last = j; last < columns; ++last) c_rest[last] += left * b[k * b_row + last];
    }
  }
}

} // namespace partita
