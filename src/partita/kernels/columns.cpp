#include "partita/kernels/columns.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"

#include <cstring>

namespace partita {

namespace {

using std::memcpy; // devices have it too

/// For extents, which fit into 32 bits: some processors divide 64-bit numbers ten times as slowly.
KOKKOS_INLINE_FUNCTION std::int64_t quotient(std::int64_t a, std::int64_t b) {
  return b == 1 ? a : static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
}

/// One tap of the windows: its place in the first window, and per axis the windows for which it lies inside
/// the input.
struct Tap {
  KOKKOS_INLINE_FUNCTION Tap(const WindowPlan& w, std::int64_t tap) {
    const std::int64_t line = quotient(tap, w.kernel[2]), plane = quotient(line, w.kernel[1]);
    const std::int64_t of_axis[3] = {plane, line - plane * w.kernel[1], tap - line * w.kernel[2]};
    for (int a = 0; a < 3; ++a) {
      place[a] = of_axis[a] * w.dilation[a] - w.before[a];
      begin[a] = place[a] < 0 ? quotient(w.stride[a] - 1 - place[a], w.stride[a]) : 0;
      end[a] = place[a] < w.in[a] ? quotient(w.in[a] - 1 - place[a], w.stride[a]) + 1 : 0;
      if (end[a] > w.out[a]) end[a] = w.out[a];
      if (begin[a] > end[a]) begin[a] = end[a];
    }
  }
  /// Does it lie inside the input for all windows?
  KOKKOS_INLINE_FUNCTION bool everywhere(const WindowPlan& w) const {
    for (int a = 0; a < 3; ++a)
      if (begin[a] > 0 || end[a] < w.out[a]) return false;
    return true;
  }
  /// Index of its input value for a window.
  KOKKOS_INLINE_FUNCTION std::int64_t offset(const WindowPlan& w, std::int64_t wz, std::int64_t wy,
                                             std::int64_t wx) const {
    return ((place[0] + wz * w.stride[0]) * w.in[1] + place[1] + wy * w.stride[1]) * w.in[2] + place[2] +
           wx * w.stride[2];
  }

  std::int64_t place[3], begin[3], end[3];
};

/// Calls body(first window, its value in the input, windows) for the rows of windows that have the tap
/// inside; the windows of a row are neighbours, and their values lie `stride` apart.
template <class Body>
KOKKOS_INLINE_FUNCTION void forRows(const WindowPlan& w, const Tap& tap, const Body& body) {
  const std::int64_t n = tap.end[2] - tap.begin[2], step = w.stride[1] * w.in[2];
  for (std::int64_t wz = tap.begin[0]; wz < tap.end[0]; ++wz) {
    std::int64_t window = (wz * w.out[1] + tap.begin[1]) * w.out[2] + tap.begin[2],
                 value = tap.offset(w, wz, tap.begin[1], tap.begin[2]);
    for (std::int64_t wy = tap.begin[1]; wy < tap.end[1]; ++wy, window += w.out[2], value += step)
      body(window, value, n);
  }
}

template <std::int64_t Value>
struct Constant {
  KOKKOS_INLINE_FUNCTION operator std::int64_t() const { return Value; }
};

/// Calls body(stride), with a constant for the usual stride above 1: rows are short, and compilers vectorise
/// loops with a known stride better.
template <class Body>
KOKKOS_INLINE_FUNCTION void withStride(std::int64_t stride, const Body& body) {
  if (stride == 2)
    body(Constant<2>());
  else
    body(stride);
}

/// Runs of the same length in two places. Rows of small images are short: vectors of fixed length, with the
/// loop over runs inside, take less time than a loop of unknown length for each run.
struct Runs {
  std::int64_t count, length, from_step, to_step;

  /// Copies all runs, or adds them.
  template <bool Add>
  KOKKOS_INLINE_FUNCTION void move(const Real* from, Real* to) const {
    std::int64_t done = 0;
    for (; done + 16 <= length; done += 16) moveLanes<Add, 16>(from + done, to + done);
    for (; done + 8 <= length; done += 8) moveLanes<Add, 8>(from + done, to + done);
    for (; done + 4 <= length; done += 4) moveLanes<Add, 4>(from + done, to + done);
    for (; done < length; ++done) moveLanes<Add, 1>(from + done, to + done);
  }

 private:
  template <bool Add, int Lanes>
  KOKKOS_INLINE_FUNCTION void moveLanes(const Real* from, Real* to) const {
    for (std::int64_t run = 0; run < count; ++run) {
      Real values[Lanes], sums[Lanes]; // vector registers, because the compiler knows the copies' size
      memcpy(values, from + run * from_step, sizeof values);
      if (Add) {
        memcpy(sums, to + run * to_step, sizeof sums);
        for (int lane = 0; lane < Lanes; ++lane) values[lane] += sums[lane];
      }
      memcpy(to + run * to_step, values, sizeof values);
    }
  }
};

/// Calls body(first window, its value in the input) for the planes of windows that have the tap inside.
template <class Body>
KOKKOS_INLINE_FUNCTION void forPlanes(const WindowPlan& w, const Tap& tap, const Body& body) {
  for (std::int64_t wz = tap.begin[0]; wz < tap.end[0]; ++wz)
    body((wz * w.out[1] + tap.begin[1]) * w.out[2] + tap.begin[2],
         tap.offset(w, wz, tap.begin[1], tap.begin[2]));
}

/// If windows are one place apart and a row has as many windows as places, a tap sees a shifted plane of the
/// input: one contiguous run over the windows that have it inside. Between two rows of these windows the tap
/// is outside, and the run continues with the next row of the input.
struct ShiftedPlane {
  KOKKOS_INLINE_FUNCTION static bool fits(const WindowPlan& w) {
    return w.stride[1] == 1 && w.stride[2] == 1 && w.out[2] == w.in[2];
  }
  KOKKOS_INLINE_FUNCTION ShiftedPlane(const WindowPlan& w, const Tap& tap)
      : size(w.out[1] * w.out[2]), first(0), count(0), row(w.out[2]), inside(tap.end[2] - tap.begin[2]) {
    const std::int64_t rows = tap.end[1] - tap.begin[1];
    if (rows <= 0 || inside <= 0) return; // no window has it inside
    first = tap.begin[1] * row + tap.begin[2];
    count = (rows - 1) * row + inside;
  }
  /// Zeroes the values of the run, which begins at `run`, that belong to no window: column by column, because
  /// there are fewer columns of them than rows.
  KOKKOS_INLINE_FUNCTION void clearBetweenRows(Real* run) const {
    for (std::int64_t column = inside; column < row; ++column)
      for (std::int64_t i = column; i < count; i += row) run[i] = Real(0);
  }

  std::int64_t size; ///< windows of a plane
  std::int64_t first, count, row, inside;
};

struct Gather {
  WindowPlan w;
  const Real* in;
  Real* columns;
  std::int64_t channels, rows;

  /// An item is one value of a column; it runs over the windows of all rows of the batch, or of one row.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t value, std::int64_t first, std::int64_t last) const {
    const std::int64_t taps = placesOf(w.kernel), windows = placesOf(w.out), channel = value / taps;
    const Tap tap(w, value - channel * taps);
    const Real* image = in + channel * placesOf(w.in);
    const std::int64_t image_row = channels * placesOf(w.in);
    Real* out = columns + value * rows * windows;
    if (first + 1 == last) {
      const std::int64_t row = first / windows;
      out[first] = one(image + row * image_row, tap, first - row * windows);
    } else if (ShiftedPlane::fits(w)) {
      for (std::int64_t row = 0; row < rows; ++row) planes(image + row * image_row, tap, out + row * windows);
    } else if (w.stride[2] == 1) {
      neighbours(image, image_row, tap, out, windows);
    } else {
      for (std::int64_t row = 0; row < rows; ++row) whole(image + row * image_row, tap, out + row * windows);
    }
  }

  KOKKOS_INLINE_FUNCTION void planes(const Real* image, const Tap& tap, Real* out) const {
    const ShiftedPlane plane(w, tap);
    for (std::int64_t wz = 0; wz < w.out[0]; ++wz, out += plane.size) {
      const bool inside = wz >= tap.begin[0] && wz < tap.end[0];
      const std::int64_t first = plane.first, end = inside ? first + plane.count : first;
      for (std::int64_t i = 0; i < first; ++i) out[i] = Real(0);
      for (std::int64_t i = end; i < plane.size; ++i) out[i] = Real(0);
      if (end == first) continue;
      const Real* from = image + tap.offset(w, wz, tap.begin[1], tap.begin[2]) - first;
      PARTITA_INDEPENDENT
      for (std::int64_t i = first; i < end; ++i) out[i] = from[i];
      plane.clearBetweenRows(out + first);
    }
  }

  KOKKOS_INLINE_FUNCTION Real one(const Real* image, const Tap& tap, std::int64_t window) const {
    const std::int64_t at[3] = {window / (w.out[1] * w.out[2]), window / w.out[2] % w.out[1],
                                window % w.out[2]};
    for (int a = 0; a < 3; ++a)
      if (at[a] < tap.begin[a] || at[a] >= tap.end[a]) return Real(0);
    return image[tap.offset(w, at[0], at[1], at[2])];
  }

  /// Of all rows of the batch, if neighbouring windows have neighbouring values.
  KOKKOS_INLINE_FUNCTION void neighbours(const Real* images, std::int64_t image_row, const Tap& tap,
                                         Real* out, std::int64_t windows) const {
    if (!tap.everywhere(w))
      for (std::int64_t i = 0; i < rows * windows; ++i) out[i] = Real(0);
    const Runs runs{tap.end[1] - tap.begin[1], tap.end[2] - tap.begin[2], w.stride[1] * w.in[2], w.out[2]};
    const std::int64_t images_in_batch = rows;
    forPlanes(w, tap, [=](std::int64_t window, std::int64_t value) {
      for (std::int64_t row = 0; row < images_in_batch; ++row)
        runs.move<false>(images + row * image_row + value, out + row * windows + window);
    });
  }

  KOKKOS_INLINE_FUNCTION void whole(const Real* image, const Tap& tap, Real* out) const {
    if (!tap.everywhere(w))
      for (std::int64_t i = 0; i < placesOf(w.out); ++i) out[i] = Real(0);
    withStride(w.stride[2], [=](auto stride) {
      forRows(w, tap, [=](std::int64_t window, std::int64_t value, std::int64_t n) {
        PARTITA_INDEPENDENT
        for (std::int64_t i = 0; i < n; ++i) out[window + i] = image[value + i * stride];
      });
    });
  }
};

struct Scatter {
  WindowPlan w;
  Real* columns; // values outside the input become zero
  Real* grad_in;
  std::int64_t channels, rows;

  /// An item owns one channel, of all rows of the batch or of one row.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t channel, std::int64_t first, std::int64_t last) const {
    const std::int64_t taps = placesOf(w.kernel), places = placesOf(w.in), windows = placesOf(w.out);
    for (std::int64_t row = first; row < last; ++row) {
      Real* image = grad_in + (row * channels + channel) * places;
      for (std::int64_t i = 0; i < places; ++i) image[i] = Real(0);
    }
    const bool neighbours = w.stride[2] == 1 && !ShiftedPlane::fits(w);
    for (std::int64_t t = 0; t < taps; ++t) {
      const Tap tap(w, t);
      Real* from = columns + (channel * taps + t) * rows * windows;
      if (neighbours) addNeighbours(tap, from, channel, first, last);
      for (std::int64_t row = first; row < last && !neighbours; ++row) {
        Real* image = grad_in + (row * channels + channel) * places;
        ShiftedPlane::fits(w) ? addPlanes(tap, from + row * windows, image)
                              : add(tap, from + row * windows, image);
      }
    }
  }

  /// Of some rows of the batch, if neighbouring windows have neighbouring values.
  KOKKOS_INLINE_FUNCTION void addNeighbours(const Tap& tap, const Real* from, std::int64_t channel,
                                            std::int64_t first, std::int64_t last) const {
    const std::int64_t places = placesOf(w.in), windows = placesOf(w.out), image_row = channels * places;
    const Runs runs{tap.end[1] - tap.begin[1], tap.end[2] - tap.begin[2], w.out[2], w.stride[1] * w.in[2]};
    Real* const images = grad_in + channel * places;
    forPlanes(w, tap, [=](std::int64_t window, std::int64_t value) {
      for (std::int64_t row = first; row < last; ++row)
        runs.move<true>(from + row * windows + window, images + row * image_row + value);
    });
  }

  KOKKOS_INLINE_FUNCTION void addPlanes(const Tap& tap, Real* columns_of_row, Real* image) const {
    const ShiftedPlane plane(w, tap);
    for (std::int64_t wz = tap.begin[0]; plane.count > 0 && wz < tap.end[0]; ++wz) {
      Real* from = columns_of_row + wz * plane.size + plane.first;
      Real* to = image + tap.offset(w, wz, tap.begin[1], tap.begin[2]);
      plane.clearBetweenRows(from);
      PARTITA_INDEPENDENT
      for (std::int64_t i = 0; i < plane.count; ++i) to[i] += from[i];
    }
  }

  KOKKOS_INLINE_FUNCTION void add(const Tap& tap, const Real* from, Real* image) const {
    withStride(w.stride[2], [=](auto stride) {
      forRows(w, tap, [=](std::int64_t window, std::int64_t value, std::int64_t n) {
        PARTITA_INDEPENDENT
        for (std::int64_t i = 0; i < n; ++i) image[value + i * stride] += from[window + i];
      });
    });
  }
};

} // namespace

void gatherColumns(const ExecSpace& space, const WindowPlan& windows, const Matrix& in,
                   const Matrix& columns) {
  const Region region(space, "partita::columns::gather", Phase::elementwise);
  const std::int64_t rows = in.extent(0), values = columns.extent(0);
  forEachRun(space, "partita::columns::gather_kernel", values, rows * windows.outPlaces(),
             Gather{windows, in.data(), columns.data(), values / windows.taps(), rows});
}

void scatterColumns(const ExecSpace& space, const WindowPlan& windows, const Matrix& columns,
                    const Matrix& grad_in) {
  const Region region(space, "partita::columns::scatter", Phase::elementwise);
  const std::int64_t rows = grad_in.extent(0), channels = columns.extent(0) / windows.taps();
  forEachRun(space, "partita::columns::scatter_kernel", channels, rows,
             Scatter{windows, columns.data(), grad_in.data(), channels, rows});
}

} // namespace partita
