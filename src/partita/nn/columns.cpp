#include "partita/nn/columns.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"

namespace partita {

namespace {

/// One tap of the windows: where it lies for the first window, and which windows along the last axis have it
/// inside the input.
struct Tap {
  KOKKOS_INLINE_FUNCTION Tap(const WindowPlan& w, std::int64_t tap) {
    x = tap % w.kernel[2] * w.dilation[2] - w.before[2];
    y = tap / w.kernel[2] % w.kernel[1] * w.dilation[1] - w.before[1];
    z = tap / (w.kernel[2] * w.kernel[1]) * w.dilation[0] - w.before[0];
    const std::int64_t stride = w.stride[2];
    begin = x < 0 ? (stride - 1 - x) / stride : 0;
    end = x < w.in[2] ? (w.in[2] - 1 - x) / stride + 1 : 0;
    if (end > w.out[2]) end = w.out[2];
    if (begin > end) begin = end;
  }
  /// Is this row of windows inside the input?
  KOKKOS_INLINE_FUNCTION bool inside(const WindowPlan& w, std::int64_t wz, std::int64_t wy) const {
    const std::int64_t py = y + wy * w.stride[1], pz = z + wz * w.stride[0];
    return py >= 0 && py < w.in[1] && pz >= 0 && pz < w.in[0];
  }
  /// Of the first window of a row; window i is `stride` x i further.
  KOKKOS_INLINE_FUNCTION std::int64_t offset(const WindowPlan& w, std::int64_t wz, std::int64_t wy) const {
    return ((z + wz * w.stride[0]) * w.in[1] + y + wy * w.stride[1]) * w.in[2] + x;
  }

  std::int64_t x, y, z, begin, end;
};

struct Gather {
  WindowPlan w;
  const Real* in;
  Real* columns;
  std::int64_t channels, rows;

  /// An item is one value of a column in one row of the batch; it runs over windows.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t first, std::int64_t last) const {
    const std::int64_t taps = w.taps(), value = item / rows, row = item % rows;
    const Real* image = in + (row * channels + value / taps) * w.inPlaces();
    const Tap tap(w, value % taps);
    Real* out = columns + item * w.outPlaces();
    std::int64_t wy = first / w.out[2], wx = first - wy * w.out[2];
    std::int64_t wz = wy / w.out[1];
    wy -= wz * w.out[1];
    while (first < last) {
      const std::int64_t rest = last - first, n = w.out[2] - wx < rest ? w.out[2] : wx + rest;
      Real* to = out + first - wx;
      if (tap.inside(w, wz, wy)) {
        copyRow(image + tap.offset(w, wz, wy), to, tap, wx, n);
      } else {
        for (std::int64_t i = wx; i < n; ++i) to[i] = Real(0);
      }
      first += n - wx;
      wx = 0;
      if (++wy == w.out[1]) {
        wy = 0;
        ++wz;
      }
    }
  }

  /// Windows [i, n) of a row.
  KOKKOS_INLINE_FUNCTION void copyRow(const Real* from, Real* to, const Tap& tap, std::int64_t i,
                                      std::int64_t n) const {
    const std::int64_t stride = w.stride[2], inside = tap.end < n ? tap.end : n;
    for (; i < n && i < tap.begin; ++i) to[i] = Real(0);
    if (stride == 1) {
      PARTITA_INDEPENDENT
      for (std::int64_t j = i; j < inside; ++j) to[j] = from[j];
    } else {
      PARTITA_INDEPENDENT
      for (std::int64_t j = i; j < inside; ++j) to[j] = from[j * stride];
    }
    for (i = i > inside ? i : inside; i < n; ++i) to[i] = Real(0);
  }
};

struct Scatter {
  WindowPlan w;
  const Real* columns;
  Real* grad_in;
  std::int64_t channels, rows;

  /// An item owns one channel of one row of the batch.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t channel) const {
    const std::int64_t taps = w.taps();
    Real* image = grad_in + (row * channels + channel) * w.inPlaces();
    for (std::int64_t i = 0; i < w.inPlaces(); ++i) image[i] = Real(0);
    for (std::int64_t t = 0; t < taps; ++t) {
      const Tap tap(w, t);
      const Real* from = columns + ((channel * taps + t) * rows + row) * w.outPlaces();
      for (std::int64_t wz = 0; wz < w.out[0]; ++wz) {
        for (std::int64_t wy = 0; wy < w.out[1]; ++wy, from += w.out[2])
          if (tap.inside(w, wz, wy)) addRow(from, image + tap.offset(w, wz, wy), tap);
      }
    }
  }

  KOKKOS_INLINE_FUNCTION void addRow(const Real* from, Real* to, const Tap& tap) const {
    const std::int64_t stride = w.stride[2];
    if (stride == 1) {
      PARTITA_INDEPENDENT
      for (std::int64_t i = tap.begin; i < tap.end; ++i) to[i] += from[i];
    } else {
      PARTITA_INDEPENDENT
      for (std::int64_t i = tap.begin; i < tap.end; ++i) to[i * stride] += from[i];
    }
  }
};

} // namespace

void gatherColumns(const ExecSpace& space, const WindowPlan& windows, const Matrix& in,
                   const Matrix& columns) {
  const Region region(space, "partita::columns::gather", Phase::elementwise);
  const auto rows = static_cast<std::int64_t>(in.extent(0)),
             values = static_cast<std::int64_t>(columns.extent(0));
  forEachRun(space, "partita::columns::gather_kernel", values * rows, windows.outPlaces(),
             Gather{windows, in.data(), columns.data(), values / windows.taps(), rows});
}

void scatterColumns(const ExecSpace& space, const WindowPlan& windows, const Matrix& columns,
                    const Matrix& grad_in) {
  const Region region(space, "partita::columns::scatter", Phase::elementwise);
  const auto rows = static_cast<std::int64_t>(grad_in.extent(0)),
             channels = static_cast<std::int64_t>(columns.extent(0)) / windows.taps();
  forEachElement(space, "partita::columns::scatter_kernel", rows, channels,
                 Scatter{windows, columns.data(), grad_in.data(), channels, rows});
}

} // namespace partita
