#include "partita/core/error.hpp"
#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/kernels/narrow_convolve.hpp"
#include "partita/kernels/narrow_gradients.hpp"
#include "partita/kernels/narrow_images.hpp"
#include "partita/kernels/narrow_sums.hpp"

#include <algorithm>

namespace partita::narrow {

#ifdef PARTITA_LANE_VECTORS

namespace {

/// Sums over some lines of windows, for each value that a window sees and all outputs.
struct WeightGradient {
  Images images;
  const Real *grad, *grad_end;
  Real* partial; // [slices, depth, width]
  bool add;
  std::int64_t first_line, lines, slices, at_once;

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
    PARTITA_UNROLL
    for (int i = 0; i < Count; ++i) {
      at[i] = images.valueAt(first + (i < left ? i : 0));
      sums[i].load(add && i < left ? to + i * images.width : none);
    }
    const std::int64_t end = first_line + (slice + 1) * lines / slices;
    for (std::int64_t line = first_line + slice * lines / slices; line < end; ++line)
      addLine<Count>(sums, at, line, output);
    PARTITA_UNROLL
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
      PARTITA_UNROLL
      for (int i = 0; i < Count; ++i) sums[i].add(from[at[i]], factors);
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

/// partial [slices, depth, width] = the gradients of the weights, one per slice of the lines; if `add`, added
/// to what is there. Lines come in blocks that stay in a cache, because all tiles of weights read them again.
/// Values up to `grad_end` may be read.
void addDenseGradient(const ExecSpace& space, const ConvolutionPlan& plan, const Images& images,
                      const Matrix& grad, const Real* grad_end, bool add, Real* partial) {
  constexpr std::int64_t block_values = 1 << 15;
  const WindowPlan& w = plan.windows;
  const std::int64_t slices = plan.gradientSlices(),
                     all = static_cast<std::int64_t>(grad.extent(0)) * w.out[0] * w.out[1],
                     of_line = w.out[2] * plan.out_channels + w.seen(2) * plan.in_channels,
                     at_once = std::max<std::int64_t>(8, block_values / of_line / slices) * slices,
                     sums = sumsAtOnce(plan.depth(), 5);
  eachRows(all, at_once, [&](std::int64_t first, std::int64_t lines) {
    const WeightGradient gradient{images, grad.data(), grad_end, partial, add || first > 0,
                                  first,  lines,       slices,   sums};
    Kokkos::parallel_for("partita::narrow::weight_gradient_kernel",
                         Range(space, 0, gradient.tiles() * slices), gradient);
  });
}

} // namespace

void weightGradient(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work,
                    const ConvolveGradients& gradients) {
  const Region region(space, "partita::narrow::weight_gradient", Phase::gemm);
  const Matrix in = gradients.in.real(), grad = gradients.grad.real();
  const std::int64_t rows = gradients.in.rows, width = plan.narrowWidth(), slices = plan.gradientSlices(),
                     depth = plan.depth();
  Real *const partial = work.data(), *const padded = partial + slices * depth * width;
  const bool sparse = mostlyZeros(space, plan, grad);
  eachRows(rows, plan.narrowRows(rows), [&](std::int64_t first, std::int64_t count) {
    const Images images = imagesOf(space, plan, rowsFrom(in, first, count), padded);
    const Matrix from = rowsFrom(grad, first, count);
    if (sparse)
      addSparseGradient(space, plan, images, from, first > 0, partial);
    else
      addDenseGradient(space, plan, images, from, grad.data() + grad.size(), first > 0, partial);
    if (gradients.between && first + count < rows) gradients.between();
  });
  const std::int64_t outputs = plan.out_channels;
  forEachRun(space, "partita::narrow::unpack_kernel", outputs, depth,
             UnpackGradient{partial, gradients.weight_gradient.real().data(), plan.in_channels,
                            plan.windows.taps(), slices, depth * (sparse ? outputs : width),
                            sparse ? 1 : width, sparse ? depth : 1, gradients.accumulate});
}

#else

void weightGradient(const ExecSpace&, const ConvolutionPlan&, const Vector&, const ConvolveGradients&) {
  PARTITA_FAIL("this build has no kernels for narrow convolutions");
}

#endif

} // namespace partita::narrow
