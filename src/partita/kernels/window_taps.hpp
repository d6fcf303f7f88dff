#pragma once

#include "partita/kernels/columns.hpp"

/// Which places windows see, and which windows see a place, for kernels.
namespace partita {

/// One tap of an axis: its place in the first window, and the windows for which it lies inside the input.
struct Tap {
  KOKKOS_INLINE_FUNCTION Tap(const WindowPlan& w, int axis, std::int64_t tap)
      : place(tap * w.dilation[axis] - w.before[axis]),
        begin(place < 0 ? quotient(w.stride[axis] - 1 - place, w.stride[axis]) : 0),
        end(place < w.in[axis] ? quotient(w.in[axis] - 1 - place, w.stride[axis]) + 1 : 0) {
    if (end > w.out[axis]) end = w.out[axis];
    if (begin > end) begin = end;
  }
  std::int64_t place, begin, end;
};

/// The place of an axis that a window's tap sees, or -1 outside the input.
KOKKOS_INLINE_FUNCTION std::int64_t placeOf(const WindowPlan& w, int axis, std::int64_t window,
                                            std::int64_t tap) {
  const std::int64_t place = window * w.stride[axis] + tap * w.dilation[axis] - w.before[axis];
  return place < w.in[axis] ? place : -1;
}

/// The window of an axis whose tap sees a place, or -1.
KOKKOS_INLINE_FUNCTION std::int64_t windowOf(const WindowPlan& w, int axis, std::int64_t place,
                                             std::int64_t tap) {
  const std::int64_t away = place + w.before[axis] - tap * w.dilation[axis];
  if (away < 0) return -1;
  const std::int64_t window = quotient(away, w.stride[axis]);
  return window * w.stride[axis] == away && window < w.out[axis] ? window : -1;
}

/// A line of windows, or of places.
struct Line {
  KOKKOS_INLINE_FUNCTION Line(const std::int64_t (&extents)[3], std::int64_t line) {
    const std::int64_t plane = line / extents[1];
    row = plane / extents[0];
    z = plane - row * extents[0];
    y = line - plane * extents[1];
  }
  std::int64_t row, z, y;
};

} // namespace partita
