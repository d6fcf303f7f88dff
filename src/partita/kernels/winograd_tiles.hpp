#pragma once

#include "partita/core/channels.hpp"
#include "partita/kernels/columns.hpp"
#include "partita/kernels/narrow_sums.hpp"

namespace partita::winograd {

#ifdef PARTITA_LANE_VECTORS

KOKKOS_INLINE_FUNCTION constexpr int powerOf(int side, int axes) {
  return axes == 3 ? side * side * side : side * side;
}

/// The transforms of one axis.
struct InputRule { // B^T
  static constexpr int from = 4, to = 4;
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void apply(const V (&in)[4], V (&out)[4]) {
    out[0] = in[0] - in[2];
    out[1] = in[1] + in[2];
    out[2] = in[2] - in[1];
    out[3] = in[1] - in[3];
  }
};

struct WeightRule { // G
  static constexpr int from = 3, to = 4;
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void apply(const V (&in)[3], V (&out)[4]) {
    const V outer = in[0] + in[2];
    out[0] = in[0];
    out[1] = Real(0.5) * (outer + in[1]);
    out[2] = Real(0.5) * (outer - in[1]);
    out[3] = in[2];
  }
};

struct OutputRule { // A^T
  static constexpr int from = 4, to = 2;
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void apply(const V (&in)[4], V (&out)[2]) {
    out[0] = in[0] + in[1] + in[2];
    out[1] = in[1] - in[2] - in[3];
  }
};

struct GradientRule { // A
  static constexpr int from = 2, to = 4;
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void apply(const V (&in)[2], V (&out)[4]) {
    out[0] = in[0];
    out[1] = in[0] + in[1];
    out[2] = in[0] - in[1];
    out[3] = -in[1];
  }
};

struct WeightGradientRule { // G^T
  static constexpr int from = 4, to = 3;
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void apply(const V (&in)[4], V (&out)[3]) {
    const V half_sum = Real(0.5) * (in[1] + in[2]);
    out[0] = in[0] + half_sum;
    out[1] = Real(0.5) * (in[1] - in[2]);
    out[2] = half_sum + in[3];
  }
};

/// The same for all axes of a cube, the last one first: reads values by load(z, y, x) and writes them by
/// store(z, y, x, value). Without a depth, z is 0. Planes stay in registers.
template <class Rule, int Axes, class V, class Load, class Store>
KOKKOS_FORCEINLINE_FUNCTION void transformCube(const Load& load, const Store& store) {
  constexpr int from = Rule::from, to = Rule::to;
  V planes[Axes == 3 ? from : 1][to][to];
  for (int z = 0; z < (Axes == 3 ? from : 1); ++z) {
    V lines[from][to];
    PARTITA_UNROLL
    for (int y = 0; y < from; ++y) {
      V in[from];
      PARTITA_UNROLL
      for (int x = 0; x < from; ++x) in[x] = load(z, y, x);
      Rule::apply(in, lines[y]);
    }
    PARTITA_UNROLL
    for (int x = 0; x < to; ++x) {
      V in[from], out[to];
      PARTITA_UNROLL
      for (int y = 0; y < from; ++y) in[y] = lines[y][x];
      Rule::apply(in, out);
      PARTITA_UNROLL
      for (int y = 0; y < to; ++y) {
        if constexpr (Axes == 3)
          planes[z][y][x] = out[y];
        else
          store(0, y, x, out[y]);
      }
    }
  }
  if constexpr (Axes == 3) {
    for (int y = 0; y < to; ++y) {
      PARTITA_UNROLL
      for (int x = 0; x < to; ++x) {
        V in[from], out[to];
        PARTITA_UNROLL
        for (int z = 0; z < from; ++z) in[z] = planes[z][y][x];
        Rule::apply(in, out);
        PARTITA_UNROLL
        for (int z = 0; z < to; ++z) store(z, y, x, out[z]);
      }
    }
  }
}

KOKKOS_FORCEINLINE_FUNCTION constexpr int pointAt(int z, int y, int x) {
  return (z * 4 + y) * 4 + x;
}

/// Calls body(index, z, y, x) for the places of a cube with sides of `Side` places.
template <int Side, int Axes, class Body>
KOKKOS_FORCEINLINE_FUNCTION void forCube(const Body& body) {
  int index = 0;
  for (int z = 0; z < (Axes == 3 ? Side : 1); ++z)
    for (int y = 0; y < Side; ++y)
      for (int x = 0; x < Side; ++x) body(index++, z, y, x);
}

/// The most outputs whose sums for six tiles stay in registers. Transformed weights and gradients are stored
/// in strips of so many outputs, the last one of what remains in multiples of `narrow::half_width`: a strip
/// is read from beginning to end.
constexpr std::int64_t strip_width = std::int64_t{narrow::half_width} * narrow::most_halves;

inline std::int64_t stripsOf(std::int64_t outputs) {
  return (outputs + strip_width - 1) / strip_width;
}

/// body(Sums, first output) for a strip, and for all of them.
template <class Body>
KOKKOS_FORCEINLINE_FUNCTION void forOutputStrip(std::int64_t number, std::int64_t outputs, const Body& body) {
  const std::int64_t first = number * strip_width, left = outputs - first;
  narrow::forStrips(first, first + (left < strip_width ? left : strip_width), body);
}
template <class Body>
KOKKOS_FORCEINLINE_FUNCTION void forOutputStrips(std::int64_t outputs, const Body& body) {
  for (std::int64_t first = 0; first < outputs; first += strip_width)
    forOutputStrip(first / strip_width, outputs, body);
}

/// Inputs whose weights are copied and transformed together.
constexpr std::int64_t block_inputs = 8;

inline std::int64_t blocksOf(std::int64_t inputs) {
  return (inputs + block_inputs - 1) / block_inputs;
}

/// Distance of the values at two points. A power of two would put all of them into the same lines of a cache.
KOKKOS_INLINE_FUNCTION std::int64_t pointStep(std::int64_t tiles, std::int64_t channels) {
  return tiles * channels + packed_alignment;
}

/// Where a strip of the gradients of tiles begins.
KOKKOS_INLINE_FUNCTION std::int64_t gradientStrip(std::int64_t points, std::int64_t tiles,
                                                  std::int64_t output) {
  return points * (tiles * output + output / strip_width * packed_alignment);
}

/// Places that are read or written: extents of three axes, and the distances of neighbours, in places.
struct Grid {
  std::int64_t extents[3], steps[3], image;
};

inline Grid wholeGrid(const std::int64_t (&extents)[3]) {
  return {{extents[0], extents[1], extents[2]},
          {extents[1] * extents[2], extents[2], 1},
          extents[0] * extents[1] * extents[2]};
}

/// The tiles of 2 x 2 (x 2) outputs of some images or volumes, and what they see.
template <int Axes>
struct Tiles {
  static constexpr int points = powerOf(4, Axes); ///< values per channel of a transformed tile
  Grid in, out;
  std::int64_t before[3]; ///< padding before the window of the first output
  std::int64_t counts[3]; ///< tiles of each axis

  struct Tile {
    std::int64_t image, first[3]; ///< the first output
  };
  KOKKOS_INLINE_FUNCTION Tile tile(std::int64_t index) const {
    const std::int64_t line = index / counts[2], plane = line / counts[1],
                       image = Axes == 3 ? plane / counts[0] : plane;
    return {
        image,
        {2 * (plane - image * counts[0]), 2 * (line - plane * counts[1]), 2 * (index - line * counts[2])}};
  }
  std::int64_t ofImage() const { return counts[0] * counts[1] * counts[2]; }
};

/// All outputs of a convolution.
template <int Axes>
Tiles<Axes> tilesOf(const WindowPlan& w) {
  Tiles<Axes> tiles{wholeGrid(w.in), wholeGrid(w.out), {}, {}};
  for (int a = 0; a < 3; ++a) {
    tiles.before[a] = w.before[a];
    tiles.counts[a] = (w.out[a] + 1) / 2;
  }
  return tiles;
}

/// Where the values of a cube of places with sides of `Side` lie, which begins at `first`; `zeros` if
/// outside.
template <int Side, int Axes>
KOKKOS_FORCEINLINE_FUNCTION void placesIn(const Grid& grid, const Real* values, const Real* zeros,
                                          std::int64_t image, const std::int64_t (&first)[3],
                                          std::int64_t channels, const Real* (&places)[powerOf(Side, Axes)]) {
  bool all = true;
  for (int a = 3 - Axes; a < 3; ++a) all = all && first[a] >= 0 && first[a] + Side <= grid.extents[a];
  const std::int64_t begin =
      image * grid.image + first[0] * grid.steps[0] + first[1] * grid.steps[1] + first[2] * grid.steps[2];
  forCube<Side, Axes>([&](int i, int z, int y, int x) {
    const std::int64_t at[3] = {first[0] + z, first[1] + y, first[2] + x};
    bool inside = true;
    for (int a = 3 - Axes; a < 3 && !all; ++a) inside = inside && at[a] >= 0 && at[a] < grid.extents[a];
    places[i] = inside
                    ? values + (begin + z * grid.steps[0] + y * grid.steps[1] + x * grid.steps[2]) * channels
                    : zeros;
  });
}

/// What tiles see of each channel, transformed: to [points, tiles, channels], where points are `point_step`
/// values apart.
template <int Axes>
struct TransformInputs {
  Tiles<Axes> tiles;
  const Real *in, *zeros;
  Real* to;
  std::int64_t first, point_step, channels;

  /// An item is a tile.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    constexpr int points = Tiles<Axes>::points;
    const auto tile = tiles.tile(first + item);
    const std::int64_t begin[3] = {tile.first[0] - tiles.before[0], tile.first[1] - tiles.before[1],
                                   tile.first[2] - tiles.before[2]};
    const Real* from[points];
    placesIn<4, Axes>(tiles.in, in, zeros, tile.image, begin, channels, from);
    Real* own = to + item * channels;
    const std::int64_t step = point_step;
    forLanes(0, channels, [&](auto lanes, std::int64_t channel) {
      using L = decltype(lanes);
      transformCube<InputRule, Axes, typename L::Values>(
          [&](int z, int y, int x) { return L::load(from[pointAt(z, y, x)] + channel); },
          [&](int z, int y, int x, const auto& value) {
            L::store(own + pointAt(z, y, x) * step + channel, value);
          });
    });
  }
};

#endif

} // namespace partita::winograd
