#pragma once

#include "partita/core/loops.hpp"
#include "partita/kernels/columns.hpp"

/// Kernels of the pooling layers. They run over planes: a work item is one channel of one row of the batch.
namespace partita::pooling {

/// The part of a window's extent that lies inside the input; with padding it may be less than the whole.
struct Inside {
  KOKKOS_INLINE_FUNCTION Inside(const WindowPlan& w, int axis, std::int64_t window)
      : place(window * w.stride[axis] - w.before[axis]), begin(place < 0 ? -place : 0),
        end(w.in[axis] - place < w.kernel[axis] ? w.in[axis] - place : w.kernel[axis]) {}
  KOKKOS_INLINE_FUNCTION std::int64_t taps() const { return end - begin; }
  std::int64_t place;      ///< of the first tap, which may lie in the padding
  std::int64_t begin, end; ///< taps
};

/// Windows [begin, end) that have a tap of the last axis inside the input.
struct Columns {
  KOKKOS_INLINE_FUNCTION Columns(const WindowPlan& w, std::int64_t tap, std::int64_t first, std::int64_t last)
      : begin(first), end(last) {
    const std::int64_t x = tap - w.before[2], stride = w.stride[2];
    if (x >= 0 && x + stride * (last - 1) < w.in[2]) return; // all of them, known without a division
    const std::int64_t low = x < 0 ? (stride - 1 - x) / stride : 0,
                       high = x < w.in[2] ? (w.in[2] - 1 - x) / stride + 1 : 0;
    if (low > begin) begin = low;
    if (high < end) end = high;
  }
  std::int64_t begin, end;
};

/// Calls body(window, place along the last axis) for the windows that have `tap` inside the input.
template <class Body>
KOKKOS_INLINE_FUNCTION void forWindows(const WindowPlan& w, std::int64_t tap, std::int64_t first,
                                       std::int64_t last, const Body& body) {
  const std::int64_t x = tap - w.before[2], stride = w.stride[2];
  const Columns columns(w, tap, first, last);
  if (stride == 2) { // the usual stride, as a constant that the compiler optimises better
    PARTITA_INDEPENDENT
    for (std::int64_t i = columns.begin; i < columns.end; ++i) body(i, 2 * i + x);
  } else {
    PARTITA_INDEPENDENT
    for (std::int64_t i = columns.begin; i < columns.end; ++i) body(i, stride * i + x);
  }
}

/// Calls body(z, y, first window of the row, begin, end) for the rows of windows that overlap [first, last);
/// z and y are the parts of the windows inside the input.
template <class Body>
KOKKOS_INLINE_FUNCTION void forWindowRows(const WindowPlan& w, std::int64_t first, std::int64_t last,
                                          const Body& body) {
  std::int64_t wy = first / w.out[2], wx = first - wy * w.out[2], wz = wy / w.out[1];
  wy -= wz * w.out[1];
  while (first < last) {
    const std::int64_t rest = last - first, n = w.out[2] - wx < rest ? w.out[2] : wx + rest;
    body(Inside(w, 0, wz), Inside(w, 1, wy), first - wx, wx, n);
    first += n - wx;
    wx = 0;
    if (++wy == w.out[1]) {
      wy = 0;
      ++wz;
    }
  }
}

/// Windows of 2 x 2 places of an image, side by side: the usual ones. The compiler vectorises over windows
/// with all four places at once.
struct Quarters {
  KOKKOS_INLINE_FUNCTION static bool fit(const WindowPlan& w) {
    return w.in[0] == 1 && w.kernel[0] == 1 && w.out[0] == 1 && halves(w, 1) && halves(w, 2);
  }

  /// Calls body(first place, first window) for each row of windows.
  template <class Body>
  KOKKOS_INLINE_FUNCTION static void forRows(const WindowPlan& w, const Body& body) {
    for (std::int64_t row = 0; row < w.out[1]; ++row) body(2 * row * w.in[2], row * w.out[2]);
  }

 private:
  KOKKOS_INLINE_FUNCTION static bool halves(const WindowPlan& w, int axis) {
    return w.kernel[axis] == 2 && w.stride[axis] == 2 && w.before[axis] == 0 && 2 * w.out[axis] <= w.in[axis];
  }
};

struct Largest {
  WindowPlan w;
  const Real* in;
  Real *out, *place;

  /// An item is one channel of one row of the batch; it runs over windows.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t first, std::int64_t last) const {
    const WindowPlan& windows = w;
    const Real* image = in + item * placesOf(w.in);
    Real *values = out + item * placesOf(w.out), *places = place + item * placesOf(w.out);
    if (first == 0 && last == placesOf(w.out) && Quarters::fit(w)) return ofQuarters(image, values, places);
    forWindowRows(w, first, last,
                  [=, &windows](const Inside& z, const Inside& y, std::int64_t row, std::int64_t begin,
                                std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) values[row + i] = -Real(INFINITY);
                    for (std::int64_t i = begin; i < end; ++i) places[row + i] = Real(0);
                    for (std::int64_t dz = z.begin; dz < z.end; ++dz) {
                      for (std::int64_t dy = y.begin; dy < y.end; ++dy)
                        takeRow(windows, image,
                                ((z.place + dz) * windows.in[1] + y.place + dy) * windows.in[2], values + row,
                                places + row, begin, end);
                    }
                  });
  }

  KOKKOS_INLINE_FUNCTION void ofQuarters(const Real* image, Real* values, Real* places) const {
    const std::int64_t width = w.in[2], count = w.out[2];
    Quarters::forRows(w, [=](std::int64_t corner, std::int64_t window) {
      Real *best = values + window, *at = places + window;
      PARTITA_INDEPENDENT
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t x = corner + 2 * i;
        Real most = -Real(INFINITY), here = Real(0);
        const auto take = [&](std::int64_t number) {
          const Real value = image[number];
          here = value > most ? static_cast<Real>(static_cast<std::int32_t>(number)) : here;
          most = value > most ? value : most;
        };
        take(x);
        take(x + 1);
        take(x + width);
        take(x + width + 1);
        best[i] = most;
        at[i] = here;
      }
    });
  }

  KOKKOS_INLINE_FUNCTION static void takeRow(const WindowPlan& w, const Real* image, std::int64_t offset,
                                             Real* best, Real* at, std::int64_t begin, std::int64_t end) {
    for (std::int64_t tap = 0; tap < w.kernel[2]; ++tap) {
      forWindows(w, tap, begin, end, [=](std::int64_t i, std::int64_t x) {
        const Real value = image[offset + x], old = best[i], here = at[i];
        best[i] = value > old ? value : old;
        at[i] = value > old ? static_cast<Real>(static_cast<std::int32_t>(offset + x)) : here;
      });
    }
  }
};

struct LargestGradient {
  WindowPlan w;
  const Real *place, *grad_out;
  Real* grad_in;

  /// An item owns one channel of one row of the batch.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t in_places = placesOf(w.in), out_places = placesOf(w.out);
    Real* to = grad_in + item * in_places;
    const Real *at = place + item * out_places, *from = grad_out + item * out_places;
    if (4 * out_places == in_places && Quarters::fit(w)) return toQuarters(at, from, to);
    for (std::int64_t i = 0; i < in_places; ++i) to[i] = Real(0);
    for (std::int64_t i = 0; i < out_places; ++i) to[static_cast<std::int32_t>(at[i])] += from[i];
  }

  KOKKOS_INLINE_FUNCTION void toQuarters(const Real* places, const Real* gradients, Real* to) const {
    const std::int64_t width = w.in[2], count = w.out[2];
    Quarters::forRows(w, [=](std::int64_t corner, std::int64_t window) {
      const Real *at = places + window, *from = gradients + window;
      Real *upper = to + corner, *lower = upper + width;
      PARTITA_INDEPENDENT
      for (std::int64_t i = 0; i < count; ++i) {
        const auto x = static_cast<std::int32_t>(corner + 2 * i),
                   below = static_cast<std::int32_t>(x + width), here = static_cast<std::int32_t>(at[i]);
        upper[2 * i] = here == x ? from[i] : Real(0);
        upper[2 * i + 1] = here == x + 1 ? from[i] : Real(0);
        lower[2 * i] = here == below ? from[i] : Real(0);
        lower[2 * i + 1] = here == below + 1 ? from[i] : Real(0);
      }
    });
  }
};

/// Number of values of a window that lie inside the input.
KOKKOS_INLINE_FUNCTION Real countOf(const WindowPlan& w, const Inside& z, const Inside& y,
                                    std::int64_t window) {
  return static_cast<Real>(z.taps() * y.taps() * Inside(w, 2, window).taps());
}

struct Mean {
  WindowPlan w;
  const Real* in;
  Real* out;

  /// An item is one channel of one row of the batch; it runs over windows.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t first, std::int64_t last) const {
    const WindowPlan& windows = w;
    const Real* image = in + item * placesOf(w.in);
    Real* values = out + item * placesOf(w.out);
    forWindowRows(w, first, last,
                  [=, &windows](const Inside& z, const Inside& y, std::int64_t row, std::int64_t begin,
                                std::int64_t end) {
                    Real* sum = values + row;
                    for (std::int64_t i = begin; i < end; ++i) sum[i] = Real(0);
                    for (std::int64_t dz = z.begin; dz < z.end; ++dz) {
                      for (std::int64_t dy = y.begin; dy < y.end; ++dy)
                        addRow(windows,
                               image + ((z.place + dz) * windows.in[1] + y.place + dy) * windows.in[2], sum,
                               begin, end);
                    }
                    for (std::int64_t i = begin; i < end; ++i) sum[i] /= countOf(windows, z, y, i);
                  });
  }

  KOKKOS_INLINE_FUNCTION static void addRow(const WindowPlan& w, const Real* from, Real* sum,
                                            std::int64_t begin, std::int64_t end) {
    for (std::int64_t tap = 0; tap < w.kernel[2]; ++tap)
      forWindows(w, tap, begin, end, [=](std::int64_t i, std::int64_t x) { sum[i] += from[x]; });
  }
};

struct MeanGradient {
  WindowPlan w;
  const Real* grad_out;
  Real* grad_in;

  /// An item owns one channel of one row of the batch.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const WindowPlan& windows = w;
    Real* image = grad_in + item * placesOf(w.in);
    const Real* gradients = grad_out + item * placesOf(w.out);
    for (std::int64_t i = 0; i < placesOf(w.in); ++i) image[i] = Real(0);
    forWindowRows(w, 0, placesOf(w.out),
                  [=, &windows](const Inside& z, const Inside& y, std::int64_t row, std::int64_t begin,
                                std::int64_t end) {
                    const Real* from = gradients + row;
                    for (std::int64_t dz = z.begin; dz < z.end; ++dz) {
                      for (std::int64_t dy = y.begin; dy < y.end; ++dy) {
                        Real* to = image + ((z.place + dz) * windows.in[1] + y.place + dy) * windows.in[2];
                        for (std::int64_t tap = 0; tap < windows.kernel[2]; ++tap)
                          forWindows(windows, tap, begin, end, [=, &windows](std::int64_t i, std::int64_t x) {
                            to[x] += from[i] / countOf(windows, z, y, i);
                          });
                      }
                    }
                  });
  }
};

} // namespace partita::pooling
