#pragma once

#include "partita/core/typed_matrix.hpp"
#include "partita/plan/window_plan.hpp"

namespace partita {

/// Number of places in a window or an image. For kernels: the member functions of a plan run on the host
/// only.
KOKKOS_INLINE_FUNCTION std::int64_t placesOf(const std::int64_t (&extents)[3]) {
  return extents[0] * extents[1] * extents[2];
}

/// For extents, which fit into 32 bits: some processors divide 64-bit numbers ten times as slowly.
KOKKOS_INLINE_FUNCTION std::int64_t quotient(std::int64_t a, std::int64_t b) {
  return b == 1 ? a : static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
}

/// Gathers what the windows of some rows of a batch see, and scatters it back. Convolutions may have groups
/// of channels: what a window sees of a group is contiguous.

/// in [rows, places x channels] -> columns [rows x windows, groups x taps x channels of a group]; zero
/// outside the input.
void gatherColumns(const ExecSpace& space, const WindowPlan& windows, std::int64_t groups, const Matrix& in,
                   const Matrix& columns);

/// The transposed map: each value of grad_in [rows, places x channels] becomes the sum of the values of
/// `columns` that were gathered from it.
void scatterColumns(const ExecSpace& space, const WindowPlan& windows, std::int64_t groups,
                    const Matrix& columns, const Matrix& grad_in);

} // namespace partita
