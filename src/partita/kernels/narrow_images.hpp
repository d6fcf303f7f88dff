#pragma once

#include "partita/kernels/columns.hpp"

namespace partita::narrow {

/// Images with their padding: all windows lie inside. Distances are those of neighbours, in values.
struct Images {
  const Real* values;
  std::int64_t row, plane, line;
  std::int64_t channels, outputs, width; ///< `width`: distance of rows of weights
  std::int64_t run_length;               ///< `ConvolutionPlan::runLength`
  WindowPlan w;

  /// What a window sees is runs of neighbouring values.
  KOKKOS_INLINE_FUNCTION std::int64_t runs() const { return w.dilation[2] == 1 ? 1 : w.kernel[2]; }
  KOKKOS_INLINE_FUNCTION std::int64_t depth() const { return placesOf(w.kernel) * channels; }
  KOKKOS_INLINE_FUNCTION std::int64_t step() const { return w.stride[2] * channels; } ///< to the next window
  /// The first window of a line.
  KOKKOS_INLINE_FUNCTION const Real* lineOf(std::int64_t image, std::int64_t z, std::int64_t y) const {
    return values + image * row + z * w.stride[0] * plane + y * w.stride[1] * line;
  }
  /// From the first value that a window sees to the first one of a run.
  KOKKOS_INLINE_FUNCTION std::int64_t runAt(std::int64_t tz, std::int64_t ty, std::int64_t run) const {
    return tz * w.dilation[0] * plane + ty * w.dilation[1] * line + run * w.dilation[2] * channels;
  }
  /// From the first value that a window sees to another one.
  KOKKOS_INLINE_FUNCTION std::int64_t valueAt(std::int64_t value) const {
    const std::int64_t tap = quotient(value, channels), taps = quotient(tap, w.kernel[2]),
                       tz = quotient(taps, w.kernel[1]);
    return runAt(tz, taps - tz * w.kernel[1], 0) + (tap - taps * w.kernel[2]) * w.dilation[2] * channels +
           value - tap * channels;
  }
};

/// Some rows as such images, which lie in `work` if they have to be copied.
Images imagesOf(const ExecSpace& space, const ConvolutionPlan& plan, const Matrix& in, Real* work);

} // namespace partita::narrow
