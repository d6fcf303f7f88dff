#include "partita/kernels/narrow_convolve.hpp"

#include "partita/core/error.hpp"
#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/kernels/narrow_images.hpp"
#include "partita/kernels/narrow_sums.hpp"

#include <algorithm>

namespace partita::narrow {

#ifdef PARTITA_LANE_VECTORS

namespace {

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
    PARTITA_UNROLL
    for (int i = 0; i < Count; ++i) {
      from[i] = plane + y * w.stride[1] * images.line + x * images.step();
      if (++x == w.out[2]) {
        x = 0;
        ++y;
      }
    }
    S sums[Count];
    const Real* factors = weight + output;
    PARTITA_UNROLL
    for (int i = 0; i < Count; ++i) sums[i].load(factors + images.depth() * images.width);
    const std::int64_t length = images.run_length, width = images.width;
    for (std::int64_t tz = 0; tz < w.kernel[0]; ++tz)
      for (std::int64_t ty = 0; ty < w.kernel[1]; ++ty)
        for (std::int64_t run = 0; run < images.runs(); ++run) {
          const Real* at[Count];
          PARTITA_UNROLL
          for (int i = 0; i < Count; ++i) at[i] = inRegister(from[i] + images.runAt(tz, ty, run));
          for (std::int64_t k = 0; k < length; ++k, factors += width) {
            S of_value;
            of_value.load(factors);
            PARTITA_UNROLL
            for (int i = 0; i < Count; ++i) sums[i].add(at[i][k], of_value);
          }
        }
    put<Count>(sums, of_plane + window * images.outputs, output);
  }

  /// Whole vectors as long as what comes after the outputs of a window is overwritten by the next ones.
  template <int Count, class S>
  KOKKOS_FORCEINLINE_FUNCTION void put(S (&sums)[Count], Real* to, std::int64_t output) const {
    const std::int64_t left = images.outputs - output < S::width ? images.outputs - output : S::width;
    PARTITA_UNROLL
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

} // namespace

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
  eachRows(rows, at_once, [&](std::int64_t first, std::int64_t count) {
    const Images images =
        imagesOf(space, plan, rowsFrom(in, first, count), work.data() + (depth + 1) * width);
    Kokkos::parallel_for(
        "partita::narrow::forward_kernel", Range(space, 0, count * plan.windows.out[0] * shares),
        Forward{images, work.data(), rowsFrom(out, first, count).data(), epilogue.relu, share, shares});
  });
}

#else

bool convolves(const ConvolutionPlan&) {
  return false;
}

void forward(const ExecSpace&, const ConvolutionPlan&, const Vector&, const Matrix&, const Matrix&,
             const Matrix&, const ProductEpilogue&) {
  PARTITA_FAIL("this build has no kernels for narrow convolutions");
}

#endif

} // namespace partita::narrow
