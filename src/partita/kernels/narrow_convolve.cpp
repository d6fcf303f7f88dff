#include "partita/kernels/narrow_convolve.hpp"

#include "partita/core/channels.hpp"
#include "partita/core/region.hpp"
#include "partita/kernels/narrow_gradients.hpp"
#include "partita/kernels/narrow_images.hpp"

#include <algorithm>

namespace partita::narrow {

#ifdef PARTITA_LANE_VECTORS

namespace {

/// What a tile of sums may take of the registers.
#ifdef __AVX512F__
constexpr int most_halves = 8;
#else
constexpr int most_halves = 2;
#endif

/// Sums for neighbouring outputs: vectors of 16, and half a vector if `Halves` is odd.
template <int Halves>
struct Sums {
  static constexpr std::int64_t full = Halves / 2, half_width = 8, width = Halves * half_width;
  static constexpr bool rest = Halves % 2 == 1;
  Lanes<16>::Values wide[full > 0 ? full : 1];
  Lanes<8>::Values last;

  KOKKOS_FORCEINLINE_FUNCTION void load(const Real* from) {
    for (std::int64_t i = 0; i < full; ++i) wide[i] = Lanes<16>::load(from + i * 16);
    if (rest) last = Lanes<8>::load(from + full * 16);
  }
  KOKKOS_FORCEINLINE_FUNCTION void store(Real* to) const {
    for (std::int64_t i = 0; i < full; ++i) Lanes<16>::store(to + i * 16, wide[i]);
    if (rest) Lanes<8>::store(to + full * 16, last);
  }
  KOKKOS_FORCEINLINE_FUNCTION void storeSome(Real* to, std::int64_t count) const {
    Real all[width];
    store(all);
    for (std::int64_t i = 0; i < count; ++i) to[i] = all[i];
  }
  KOKKOS_FORCEINLINE_FUNCTION void add(Real factor, const Sums& what) {
    for (std::int64_t i = 0; i < full; ++i) wide[i] += factor * what.wide[i];
    if (rest) last += factor * what.last;
  }
  KOKKOS_FORCEINLINE_FUNCTION void dropNegative() {
    const auto none = Lanes<16>::all(0);
    for (std::int64_t i = 0; i < full; ++i) wide[i] = wide[i] > none ? wide[i] : none;
    if (rest) last = last > Lanes<8>::all(0) ? last : Lanes<8>::all(0);
  }
};

/// Calls body(Sums, first output) for all outputs, as many at a time as registers can hold.
template <int Halves = most_halves, class Body>
KOKKOS_INLINE_FUNCTION void forStrips(std::int64_t first, std::int64_t outputs, const Body& body) {
  using S = Sums<Halves>;
  for (; outputs - first > S::width - S::half_width; first += S::width) body(S(), first);
  if constexpr (Halves > 1) forStrips<Halves - 1>(first, outputs, body);
}

struct Forward {
  Images images;
  const Real* weight; // and the bias in the row after them
  Real* out;
  bool relu;
  std::int64_t share, shares; // of the windows of a plane

  /// An item is a share of the windows of a plane.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const WindowPlan& w = images.w;
    const std::int64_t plane = item / shares, row = plane / w.out[0], z = plane - row * w.out[0],
                       windows = w.out[1] * w.out[2], begin = (item - plane * shares) * share,
                       end = begin + share < windows ? begin + share : windows;
    const Real* first = images.lineOf(row, z, 0);
    Real* to = out + plane * windows * images.outputs;
    forStrips(0, images.outputs, [&](const auto& sums, std::int64_t output) {
      std::int64_t window = begin;
      for (; window + 6 <= end; window += 6) tile<6>(sums, first, to, window, output);
      for (; window + 2 <= end; window += 2) tile<2>(sums, first, to, window, output);
      for (; window < end; ++window) tile<1>(sums, first, to, window, output);
    });
  }

 private:
  template <int Count, class S>
  KOKKOS_INLINE_FUNCTION void tile(const S&, const Real* plane, Real* of_plane, std::int64_t window,
                                   std::int64_t output) const {
    const WindowPlan& w = images.w;
    const Real* from[Count];
    std::int64_t y = quotient(window, w.out[2]), x = window - y * w.out[2];
    for (int i = 0; i < Count; ++i) {
      from[i] = plane + y * w.stride[1] * images.line + x * images.step();
      if (++x == w.out[2]) {
        x = 0;
        ++y;
      }
    }
    S sums[Count];
    const Real* factors = weight + output;
    for (int i = 0; i < Count; ++i) sums[i].load(factors + images.depth() * images.width);
    const std::int64_t length = images.run_length, width = images.width;
    for (std::int64_t tz = 0; tz < w.kernel[0]; ++tz)
      for (std::int64_t ty = 0; ty < w.kernel[1]; ++ty)
        for (std::int64_t run = 0; run < images.runs(); ++run) {
          const std::int64_t begin = images.runAt(tz, ty, run);
          for (std::int64_t k = begin; k < begin + length; ++k, factors += width) {
            S of_value;
            of_value.load(factors);
            for (int i = 0; i < Count; ++i) sums[i].add(from[i][k], of_value);
          }
        }
    put<Count>(sums, of_plane + window * images.outputs, output);
  }

  /// Whole vectors as long as what comes after the outputs of a window is overwritten by the next ones.
  template <int Count, class S>
  KOKKOS_FORCEINLINE_FUNCTION void put(S (&sums)[Count], Real* to, std::int64_t output) const {
    const std::int64_t left = images.outputs - output < S::width ? images.outputs - output : S::width;
    for (int i = 0; i < Count; ++i) {
      if (relu) sums[i].dropNegative();
      Real* own = to + i * images.outputs + output;
      if (left == S::width || (output == 0 && (Count - 1 - i) * images.outputs + left >= S::width))
        sums[i].store(own);
      else
        sums[i].storeSome(own, left);
    }
  }
};

/// Sums over some lines of windows, for each value that a window sees and all outputs.
struct WeightGradient {
  Images images;
  const Real *grad, *grad_end;
  Real* partial; // [slices, depth, width]
  bool add;
  std::int64_t lines, slices, at_once;

  KOKKOS_INLINE_FUNCTION std::int64_t tiles() const { return (images.depth() + at_once - 1) / at_once; }

  /// An item is some values of a window and a slice of the lines.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t slice = item / tiles(), first = (item - slice * tiles()) * at_once;
    forStrips(0, images.outputs, [&](const auto& sums, std::int64_t output) {
      if (at_once == 5)
        tile<5>(sums, slice, first, output);
      else
        tile<6>(sums, slice, first, output);
    });
  }

 private:
  template <int Count, class S>
  KOKKOS_INLINE_FUNCTION void tile(const S&, std::int64_t slice, std::int64_t first,
                                   std::int64_t output) const {
    const std::int64_t depth = images.depth(), left = depth - first < Count ? depth - first : Count;
    std::int64_t at[Count];
    S sums[Count];
    Real* to = partial + (slice * depth + first) * images.width + output;
    const Real none[S::width] = {};
    for (int i = 0; i < Count; ++i) {
      at[i] = images.valueAt(first + (i < left ? i : 0));
      sums[i].load(add && i < left ? to + i * images.width : none);
    }
    const std::int64_t end = (slice + 1) * lines / slices;
    for (std::int64_t line = slice * lines / slices; line < end; ++line)
      addLine<Count>(sums, at, line, output);
    for (int i = 0; i < Count; ++i)
      if (i < left) sums[i].store(to + i * images.width);
  }

  template <int Count, class S>
  KOKKOS_FORCEINLINE_FUNCTION void addLine(S (&sums)[Count], const std::int64_t (&at)[Count],
                                           std::int64_t line, std::int64_t output) const {
    const WindowPlan& w = images.w;
    const std::int64_t plane = line / w.out[1], row = plane / w.out[0], outputs = images.outputs,
                       step = images.step(), windows = w.out[2];
    const Real *from = images.lineOf(row, plane - row * w.out[0], line - plane * w.out[1]),
               *own = grad + line * windows * outputs + output;
    const bool inside = grad_end - own >= (windows - 1) * outputs + S::width;
    for (std::int64_t x = 0; x < windows; ++x, from += step, own += outputs) {
      S factors;
      if (inside) {
        factors.load(own);
      } else {
        Real copy[S::width] = {};
        for (std::int64_t i = 0; i < S::width && output + i < outputs; ++i) copy[i] = own[i];
        factors.load(copy);
      }
      for (int i = 0; i < Count; ++i) sums[i].add(from[at[i]], factors);
    }
  }
};

/// Images with their padding.
struct Pad {
  const Real* in;
  Real* to;
  WindowPlan w;
  std::int64_t seen[3], channels;

  /// An item is a line with its padding.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t plane = item / seen[1], row = plane / seen[0], z = plane - row * seen[0] - w.before[0],
                       y = item - plane * seen[1] - w.before[1], width = seen[2] * channels;
    Real* line = to + item * width;
    const bool inside = z >= 0 && y >= 0 && z < w.in[0] && y < w.in[1];
    const std::int64_t before = w.before[2] * channels, first = before > 0 ? before : 0,
                       begin = inside && first < width ? first : width, after = before + w.in[2] * channels,
                       end = after < width ? after : width;
    const Real* from = in + ((row * w.in[0] + z) * w.in[1] + y) * w.in[2] * channels - before;
    for (std::int64_t i = 0; i < begin; ++i) line[i] = 0;
    for (std::int64_t i = begin; i < end; ++i) line[i] = from[i];
    for (std::int64_t i = end; i < width; ++i) line[i] = 0;
  }
};

/// Weights as rows of outputs, one per value that a window sees, and the bias.
struct PackWeights {
  const Real *weight, *bias;
  Real* packed;
  std::int64_t channels, taps, outputs, width;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t value, std::int64_t begin, std::int64_t end) const {
    const std::int64_t depth = channels * taps, tap = quotient(value, channels),
                       from = (value - tap * channels) * taps + tap;
    for (std::int64_t o = begin; o < end; ++o) {
      Real own = 0;
      if (o < outputs && value < depth) own = weight[o * depth + from];
      if (o < outputs && value == depth && bias != nullptr) own = bias[o];
      packed[value * width + o] = own;
    }
  }
};

/// The sums of all slices in the order of the weights.
struct UnpackGradient {
  const Real* partial;
  Real* gradient;
  std::int64_t channels, taps, slices, slice_step, value_step, output_step;
  bool accumulate;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t output, std::int64_t begin, std::int64_t end) const {
    const std::int64_t depth = channels * taps;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t channel = quotient(i, taps), value = (i - channel * taps) * channels + channel;
      Real sum = 0;
      for (std::int64_t s = 0; s < slices; ++s)
        sum += partial[s * slice_step + value * value_step + output * output_step];
      gradient[output * depth + i] = sum + (accumulate ? gradient[output * depth + i] : Real(0));
    }
  }
};

} // namespace

Images imagesOf(const ExecSpace& space, const ConvolutionPlan& plan, const Matrix& in, Real* work) {
  const std::int64_t channels = plan.in_channels;
  Images images{in.data(),        0,           0, 0, channels, plan.out_channels, plan.narrowWidth(),
                plan.runLength(), plan.windows};
  std::int64_t extents[3];
  const bool copied = plan.paddedValues() > 0;
  for (int a = 0; a < 3; ++a) extents[a] = copied ? plan.windows.seen(a) : plan.windows.in[a];
  images.line = extents[2] * channels;
  images.plane = extents[1] * images.line;
  images.row = extents[0] * images.plane;
  if (!copied) {
    images.values -= plan.windows.before[0] * images.plane + plan.windows.before[1] * images.line +
                     plan.windows.before[2] * channels; // windows may begin inside the image
    return images;
  }
  const Pad pad{in.data(), work, plan.windows, {extents[0], extents[1], extents[2]}, channels};
  Kokkos::parallel_for("partita::narrow::pad_kernel", Range(space, 0, in.extent(0) * extents[0] * extents[1]),
                       pad);
  images.values = work;
  return images;
}

bool convolves(const ConvolutionPlan& plan) {
  return !row_teams && plan.narrow();
}

void forward(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work, const Matrix& in,
             const Matrix& weight, const Matrix& out, const ProductEpilogue& epilogue) {
  const Region region(space, "partita::narrow::forward", Phase::gemm);
  const std::int64_t rows = in.extent(0), width = plan.narrowWidth(), depth = plan.depth(),
                     windows = plan.windows.out[1] * plan.windows.out[2];
  constexpr std::int64_t share = 96; // windows of an item
  const std::int64_t shares = (windows + share - 1) / share;
  forEachRun(space, "partita::narrow::pack_kernel", depth + 1, width,
             PackWeights{weight.data(), epilogue.bias, work.data(), plan.in_channels, plan.windows.taps(),
                         plan.out_channels, width});
  const std::int64_t at_once = plan.paddedValues() > 0 ? plan.narrowRows(rows) : rows;
  for (std::int64_t first = 0; first < rows; first += at_once) {
    const std::int64_t count = std::min(at_once, rows - first);
    const Images images =
        imagesOf(space, plan, rowsFrom(in, first, count), work.data() + (depth + 1) * width);
    Kokkos::parallel_for(
        "partita::narrow::forward_kernel", Range(space, 0, count * plan.windows.out[0] * shares),
        Forward{images, work.data(), rowsFrom(out, first, count).data(), epilogue.relu, share, shares});
  }
}

void weightGradient(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work, bool accumulate,
                    const Matrix& in, const Matrix& grad, const Matrix& weight_gradient,
                    const Between& between) {
  const Region region(space, "partita::narrow::weight_gradient", Phase::gemm);
  const std::int64_t rows = in.extent(0), at_once = plan.narrowRows(rows), width = plan.narrowWidth(),
                     slices = plan.gradientSlices(), depth = plan.depth();
  const auto computed = [&](std::int64_t tile) { return (depth + tile - 1) / tile * tile; };
  Real *const partial = work.data(), *const padded = partial + slices * depth * width;
  const bool sparse = mostlyZeros(space, plan, grad);
  for (std::int64_t first = 0; first < rows; first += at_once) {
    const std::int64_t count = std::min(at_once, rows - first);
    const Images images = imagesOf(space, plan, rowsFrom(in, first, count), padded);
    const Matrix from = rowsFrom(grad, first, count);
    if (sparse) {
      addSparseGradient(space, plan, images, from, first > 0, partial);
    } else {
      const WeightGradient gradient{images,
                                    from.data(),
                                    grad.data() + grad.size(),
                                    partial,
                                    first > 0,
                                    count * plan.windows.out[0] * plan.windows.out[1],
                                    slices,
                                    computed(5) < computed(6) ? 5 : 6};
      Kokkos::parallel_for("partita::narrow::weight_gradient_kernel",
                           Range(space, 0, gradient.tiles() * slices), gradient);
    }
    if (between && first + count < rows) between();
  }
  const std::int64_t outputs = plan.out_channels;
  forEachRun(space, "partita::narrow::unpack_kernel", outputs, depth,
             UnpackGradient{partial, weight_gradient.data(), plan.in_channels, plan.windows.taps(), slices,
                            depth * (sparse ? outputs : width), sparse ? 1 : width, sparse ? depth : 1,
                            accumulate});
}

#else

bool convolves(const ConvolutionPlan&) {
  return false;
}

void forward(const ExecSpace&, const ConvolutionPlan&, const Vector&, const Matrix&, const Matrix&,
             const Matrix&, const ProductEpilogue&) {}

void weightGradient(const ExecSpace&, const ConvolutionPlan&, const Vector&, bool, const Matrix&,
                    const Matrix&, const Matrix&, const Between&) {}

#endif

} // namespace partita::narrow
