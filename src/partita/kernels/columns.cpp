#include "partita/kernels/columns.hpp"

#include "partita/core/channels.hpp"
#include "partita/core/region.hpp"
#include "partita/kernels/window_taps.hpp"

#include <cstring>

namespace partita {

namespace {

enum class Move { copy, add, clear };

/// Runs of the same length in two places. They are often short: vectors of fixed length, with the loop over
/// runs inside, take less time than a loop of unknown length for each run.
struct Runs {
  std::int64_t count, length, from_step, to_step;

  template <Move How>
  KOKKOS_INLINE_FUNCTION void move(const Real* from, Real* to) const {
    forLanes(0, length, [&](auto lanes, std::int64_t first) {
      moveLanes<How, decltype(lanes)::count>(from + first, to + first);
    });
  }

 private:
  template <Move How, int Count>
  KOKKOS_INLINE_FUNCTION void moveLanes(const Real* from, Real* to) const {
    for (std::int64_t run = 0; run < count; ++run) {
      Real values[Count] = {}, sums[Count]; // vector registers, because the compiler knows the copies' size
      if (How != Move::clear) memcpy(values, from + run * from_step, sizeof values);
      if (How == Move::add) {
        memcpy(sums, to + run * to_step, sizeof sums);
        for (int lane = 0; lane < Count; ++lane) values[lane] += sums[lane];
      }
      memcpy(to + run * to_step, values, sizeof values);
    }
  }
};

/// Columns and the images from which they are gathered.
struct Sizes {
  WindowPlan w;
  std::int64_t channels, groups;

  KOKKOS_INLINE_FUNCTION std::int64_t depth() const { return channels / groups; } ///< channels of a group
  KOKKOS_INLINE_FUNCTION std::int64_t width() const { return placesOf(w.kernel) * channels; } ///< of a column
  /// Value of a column that a group's first channel has at a tap.
  KOKKOS_INLINE_FUNCTION std::int64_t valueOf(std::int64_t group, std::int64_t tz, std::int64_t ty,
                                              std::int64_t tx) const {
    return (group * placesOf(w.kernel) + (tz * w.kernel[1] + ty) * w.kernel[2] + tx) * depth();
  }
};

struct Gather {
  Sizes s;
  const Real* in;
  Real* columns;

  /// An item is a line of windows.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const WindowPlan& w = s.w;
    const Line line(w.out, item);
    Real* const to = columns + item * w.out[2] * s.width();
    for (std::int64_t group = 0; group < s.groups; ++group) {
      for (std::int64_t tz = 0; tz < w.kernel[0]; ++tz) {
        for (std::int64_t ty = 0; ty < w.kernel[1]; ++ty) {
          const std::int64_t z = placeOf(w, 0, line.z, tz), y = placeOf(w, 1, line.y, ty);
          Real* const own = to + s.valueOf(group, tz, ty, 0);
          if (z < 0 || y < 0)
            Runs{w.out[2], w.kernel[2] * s.depth(), 0, s.width()}.move<Move::clear>(own, own);
          else
            takeLine(in + ((line.row * w.in[0] + z) * w.in[1] + y) * w.in[2] * s.channels + group * s.depth(),
                     own);
        }
      }
    }
  }

 private:
  /// Neighbouring taps are one run for windows that have all of them inside.
  KOKKOS_INLINE_FUNCTION void takeLine(const Real* from, Real* to) const {
    const WindowPlan& w = s.w;
    std::int64_t begin = 0, end = 0;
    if (s.groups == 1 && w.dilation[2] == 1) {
      begin = Tap(w, 2, 0).begin;
      end = Tap(w, 2, w.kernel[2] - 1).end;
      if (begin > end) begin = end;
      Runs{end - begin, w.kernel[2] * s.channels, w.stride[2] * s.channels, s.width()}.move<Move::copy>(
          from + (begin * w.stride[2] - w.before[2]) * s.channels, to + begin * s.width());
    }
    if (begin < end) {
      for (std::int64_t window = 0; window < begin; ++window) takeWindow(from, to, window);
      for (std::int64_t window = end; window < w.out[2]; ++window) takeWindow(from, to, window);
      return;
    }
    for (std::int64_t tx = 0; tx < w.kernel[2]; ++tx) takeTap(from, to + tx * s.depth(), Tap(w, 2, tx));
  }

  /// A window at the border of a line.
  KOKKOS_INLINE_FUNCTION void takeWindow(const Real* from, Real* to, std::int64_t window) const {
    const std::int64_t channels = s.channels;
    Real* own = to + window * s.width();
    for (std::int64_t tx = 0; tx < s.w.kernel[2]; ++tx, own += channels) {
      const std::int64_t place = placeOf(s.w, 2, window, tx);
      for (std::int64_t i = 0; i < channels; ++i) own[i] = place < 0 ? Real(0) : from[place * channels + i];
    }
  }

  /// One tap of all windows of a line.
  KOKKOS_INLINE_FUNCTION void takeTap(const Real* from, Real* to, const Tap& tap) const {
    const auto runs = [&](std::int64_t count) {
      return Runs{count, s.depth(), s.w.stride[2] * s.channels, s.width()};
    };
    runs(tap.begin).move<Move::clear>(to, to);
    runs(tap.end - tap.begin)
        .move<Move::copy>(from + (tap.place + tap.begin * s.w.stride[2]) * s.channels,
                          to + tap.begin * s.width());
    runs(s.w.out[2] - tap.end).move<Move::clear>(to, to + tap.end * s.width());
  }
};

/// What `Gather` computes, one value at a time.
struct GatherOne {
  Sizes s;
  const Real* in;
  Real* columns;

  /// An item is a window.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t value) const {
    const WindowPlan& w = s.w;
    const std::int64_t of_line = item / w.out[2];
    const Line line(w.out, of_line);
    const std::int64_t of_group = placesOf(w.kernel) * s.depth(), group = quotient(value, of_group),
                       tap = quotient(value - group * of_group, s.depth()),
                       channel = value - group * of_group - tap * s.depth() + group * s.depth(),
                       taps = quotient(tap, w.kernel[2]), tz = quotient(taps, w.kernel[1]);
    const std::int64_t z = placeOf(w, 0, line.z, tz), y = placeOf(w, 1, line.y, taps - tz * w.kernel[1]),
                       x = placeOf(w, 2, item - of_line * w.out[2], tap - taps * w.kernel[2]);
    const bool inside = z >= 0 && y >= 0 && x >= 0;
    columns[item * s.width() + value] =
        inside ? in[(((line.row * w.in[0] + z) * w.in[1] + y) * w.in[2] + x) * s.channels + channel]
               : Real(0);
  }
};

/// The sums of the values of columns that were gathered from each value of the input, tap by tap.
struct GatherBack {
  Sizes s;
  const Real* columns;
  Real* grad_in;

  /// An item is a line of places.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const WindowPlan& w = s.w;
    const Line line(w.in, item);
    Real* const to = grad_in + item * w.in[2] * s.channels;
    Runs{1, w.in[2] * s.channels, 0, 0}.move<Move::clear>(to, to);
    for (std::int64_t group = 0; group < s.groups; ++group) {
      for (std::int64_t tz = 0; tz < w.kernel[0]; ++tz) {
        for (std::int64_t ty = 0; ty < w.kernel[1]; ++ty) {
          const std::int64_t z = windowOf(w, 0, line.z, tz), y = windowOf(w, 1, line.y, ty);
          if (z < 0 || y < 0) continue;
          const Real* from = columns + ((line.row * w.out[0] + z) * w.out[1] + y) * w.out[2] * s.width() +
                             s.valueOf(group, tz, ty, 0);
          for (std::int64_t tx = 0; tx < w.kernel[2]; ++tx)
            addTap(from + tx * s.depth(), to + group * s.depth(), Tap(w, 2, tx));
        }
      }
    }
  }

  /// One value of a place.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t place, std::int64_t channel) const {
    const WindowPlan& w = s.w;
    const std::int64_t of_line = place / w.in[2], x = place - of_line * w.in[2],
                       group = quotient(channel, s.depth());
    const Line line(w.in, of_line);
    const Real* from = columns + line.row * placesOf(w.out) * s.width() + channel - group * s.depth();
    Real sum = 0;
    for (std::int64_t tz = 0; tz < w.kernel[0]; ++tz) {
      for (std::int64_t ty = 0; ty < w.kernel[1]; ++ty) {
        for (std::int64_t tx = 0; tx < w.kernel[2]; ++tx) {
          const std::int64_t wz = windowOf(w, 0, line.z, tz), wy = windowOf(w, 1, line.y, ty),
                             wx = windowOf(w, 2, x, tx);
          if (wz >= 0 && wy >= 0 && wx >= 0)
            sum += from[((wz * w.out[1] + wy) * w.out[2] + wx) * s.width() + s.valueOf(group, tz, ty, tx)];
        }
      }
    }
    grad_in[place * s.channels + channel] = sum;
  }

 private:
  KOKKOS_INLINE_FUNCTION void addTap(const Real* from, Real* to, const Tap& tap) const {
    const std::int64_t stride = s.w.stride[2];
    Runs{tap.end - tap.begin, s.depth(), s.width(), stride * s.channels}.move<Move::add>(
        from + tap.begin * s.width(), to + (tap.place + tap.begin * stride) * s.channels);
  }
};

Sizes sizesOf(const WindowPlan& windows, std::int64_t groups, const Matrix& columns) {
  return {windows, static_cast<std::int64_t>(columns.extent(1)) / windows.taps(), groups};
}

} // namespace

void gatherColumns(const ExecSpace& space, const WindowPlan& windows, std::int64_t groups, const Matrix& in,
                   const Matrix& columns) {
  const Region region(space, "partita::columns::gather", Phase::elementwise);
  const Sizes sizes = sizesOf(windows, groups, columns);
  const std::int64_t count = columns.extent(0);
  if (row_teams)
    forEachElement(space, "partita::columns::gather_kernel", count, columns.extent(1),
                   GatherOne{sizes, in.data(), columns.data()});
  else
    Kokkos::parallel_for("partita::columns::gather_kernel", Range(space, 0, count / windows.out[2]),
                         Gather{sizes, in.data(), columns.data()});
}

void scatterColumns(const ExecSpace& space, const WindowPlan& windows, std::int64_t groups,
                    const Matrix& columns, const Matrix& grad_in) {
  const Region region(space, "partita::columns::scatter", Phase::elementwise);
  const Sizes sizes = sizesOf(windows, groups, columns);
  const GatherBack gather{sizes, columns.data(), grad_in.data()};
  const std::int64_t rows = grad_in.extent(0);
  if (row_teams)
    forEachElement(space, "partita::columns::scatter_kernel", rows * windows.inPlaces(), sizes.channels,
                   gather);
  else
    Kokkos::parallel_for("partita::columns::scatter_kernel",
                         Range(space, 0, rows * windows.in[0] * windows.in[1]), gather);
}

} // namespace partita
