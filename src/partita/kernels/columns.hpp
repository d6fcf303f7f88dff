#pragma once

#include "partita/core/types.hpp"
#include "partita/plan/window_plan.hpp"

namespace partita {

/// Number of places in a window or an image. For kernels: the member functions of a plan run on the host
/// only.
KOKKOS_INLINE_FUNCTION std::int64_t placesOf(const std::int64_t (&extents)[3]) {
  return extents[0] * extents[1] * extents[2];
}

/// Gathers what the windows of some rows of a batch see, and scatters it back.

/// in [rows, channels x places] -> columns [channels x taps, rows x windows]; zero outside the input.
void gatherColumns(const ExecSpace& space, const WindowPlan& windows, const Matrix& in,
                   const Matrix& columns);

/// The transposed map: each place of grad_in [rows, channels x places] becomes the sum of the values of
/// `columns` that were gathered from it. Overwrites the columns that lie outside the input.
void scatterColumns(const ExecSpace& space, const WindowPlan& windows, const Matrix& columns,
                    const Matrix& grad_in);

} // namespace partita
