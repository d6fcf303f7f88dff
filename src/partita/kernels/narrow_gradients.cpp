#include "partita/kernels/narrow_gradients.hpp"

#include "partita/core/channels.hpp"
#include "partita/core/region.hpp"
#include "partita/core/typed_matrix.hpp"

#include <algorithm>
#include <type_traits>

namespace partita::narrow {

#ifdef PARTITA_LANE_VECTORS

namespace {

constexpr int most_vectors = 8; // whose sums stay in registers
constexpr std::int64_t vector_length = values_per_vector;

/// to[i] = factor(0) * from(0)[i] + ... for `Count` vectors of lanes, with `add` added to what is there.
template <int Count, int Width, class Factor, class From>
KOKKOS_FORCEINLINE_FUNCTION void addScaledRows(std::int64_t rows, const Factor& factor, const From& from,
                                               bool add, Real* to) {
  using L = Lanes<Width>;
  constexpr std::int64_t count = Count, width = Width;
  typename L::Values sums[Count];
  for (std::int64_t v = 0; v < count; ++v) sums[v] = add ? L::load(to + v * width) : L::all(0);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Real own = factor(row);
    const Real* values = from(row);
    for (std::int64_t v = 0; v < count; ++v) sums[v] += own * L::load(values + v * width);
  }
  for (std::int64_t v = 0; v < count; ++v) L::store(to + v * width, sums[v]);
}

/// Calls body(count) with `count` as a constant, for at most `Most` vectors.
template <int Most, class Body>
KOKKOS_FORCEINLINE_FUNCTION void withCount(std::int64_t count, const Body& body) {
  if constexpr (Most > 1) {
    if (count < Most) return withCount<Most - 1>(count, body);
  }
  body(std::integral_constant<int, Most>());
}

/// The windows whose gradient of one output is not zero, some at a time.
struct SparseWeightGradient {
  Images images;
  const Real* grad;
  Real* partial; // [slices, outputs, depth]
  bool add;
  std::int64_t lines, slices;

  /// An item is an output and a slice of the lines.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    constexpr std::int64_t most = 16; // whose images stay in the fastest cache
    const WindowPlan& w = images.w;
    const std::int64_t slice = item / images.outputs, output = item - slice * images.outputs,
                       end = (slice + 1) * lines / slices, windows = w.out[2];
    Real* to = partial + item * images.depth();
    Real factors[most];
    const Real* at[most];
    std::int64_t found = 0;
    bool started = add;
    for (std::int64_t line = slice * lines / slices; line < end; ++line) {
      const std::int64_t plane = line / w.out[1], row = plane / w.out[0];
      const Real *from = images.lineOf(row, plane - row * w.out[0], line - plane * w.out[1]),
                 *own = grad + line * windows * images.outputs + output;
      for (std::int64_t x = 0; x < windows; ++x) {
        factors[found] = own[x * images.outputs];
        at[found] = from + x * images.step();
        found += factors[found] == Real(0) ? 0 : 1;
        if (found < most) continue;
        addWindows(found, factors, at, started, to);
        started = true;
        found = 0;
      }
    }
    if (found > 0 || !started) addWindows(found, factors, at, started, to);
  }

 private:
  KOKKOS_INLINE_FUNCTION void addWindows(std::int64_t count, const Real* factors, const Real* const* at,
                                         bool started, Real* to) const {
    const WindowPlan& w = images.w;
    const std::int64_t length = images.run_length;
    for (std::int64_t tz = 0; tz < w.kernel[0]; ++tz)
      for (std::int64_t ty = 0; ty < w.kernel[1]; ++ty)
        for (std::int64_t run = 0; run < images.runs(); ++run, to += length)
          addRun(count, factors, at, images.runAt(tz, ty, run), started, to);
  }

  KOKKOS_INLINE_FUNCTION void addRun(std::int64_t count, const Real* factors, const Real* const* at,
                                     std::int64_t begin, bool started, Real* to) const {
    const std::int64_t length = images.run_length;
    const auto factor = [=](std::int64_t i) { return factors[i]; };
    std::int64_t k = 0;
    const auto from = [&](std::int64_t i) { return at[i] + begin + k; };
    while (length - k >= vector_length)
      withCount<most_vectors>((length - k) / vector_length, [&](auto vectors) {
        addScaledRows<vectors, values_per_vector>(count, factor, from, started, to + k);
        k += vectors * vector_length;
      });
    forLanes(k, length, [&](auto lanes, std::int64_t first) {
      k = first;
      addScaledRows<1, decltype(lanes)::count>(count, factor, from, started, to + k);
    });
  }
};

/// Each window adds its outputs' gradients times their weights to the places that it sees, run by run.
struct InputGradient {
  Images images;             // without padding
  const Real *grad, *weight; // [outputs, runs, width]
  Real* grad_in;
  std::int64_t width; // of a run, in whole vectors

  static constexpr std::int64_t at_once = 32, most_outputs = 64;
  /// Gradients of some windows that are not zero, and their outputs.
  struct Found {
    Real factors[at_once][most_outputs];
    std::uint8_t outputs[at_once][most_outputs];
    std::int64_t counts[at_once];
  };

  /// An item is a row of the batch.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row) const {
    const std::int64_t planes = images.w.out[0], windows = images.w.out[1] * images.w.out[2];
    Real* to = grad_in + row * images.row;
    for (std::int64_t i = 0; i < images.row; ++i) to[i] = 0;
    for (std::int64_t z = 0; z < planes; ++z) {
      const Real* from = grad + (row * planes + z) * windows * images.outputs;
      for (std::int64_t first = 0; first < windows; first += at_once)
        addWindows(from, z, first, first + at_once < windows ? first + at_once : windows, to);
    }
  }

 private:
  KOKKOS_INLINE_FUNCTION void addWindows(const Real* from, std::int64_t z, std::int64_t first,
                                         std::int64_t end, Real* to) const {
    const WindowPlan& w = images.w;
    Found found;
    for (std::int64_t i = 0; i < end - first; ++i) {
      std::int64_t count = 0;
      for (std::int64_t o = 0; o < images.outputs; ++o) {
        const Real own = from[(first + i) * images.outputs + o];
        found.factors[i][count] = own;
        found.outputs[i][count] = static_cast<std::uint8_t>(o);
        count += own == Real(0) ? 0 : 1;
      }
      found.counts[i] = count;
    }
    std::int64_t number = 0;
    for (std::int64_t tz = 0; tz < w.kernel[0]; ++tz) {
      const std::int64_t in_z = z * w.stride[0] + tz * w.dilation[0] - w.before[0];
      for (std::int64_t ty = 0; ty < w.kernel[1]; ++ty)
        for (std::int64_t run = 0; run < images.runs(); ++run, ++number) {
          if (in_z < 0 || in_z >= w.in[0]) continue;
          std::int64_t y = quotient(first, w.out[2]), x = first - y * w.out[2];
          for (std::int64_t i = 0; i < end - first; ++i) {
            const std::int64_t in_y = y * w.stride[1] + ty * w.dilation[1] - w.before[1];
            if (found.counts[i] > 0 && in_y >= 0 && in_y < w.in[1])
              addRun(found, i, number, x * w.stride[2] + run * w.dilation[2] - w.before[2],
                     to + in_z * images.plane + in_y * images.line);
            if (++x == w.out[2]) {
              x = 0;
              ++y;
            }
          }
        }
    }
  }

  /// `place`: the first of the run in the line; runs may begin before the line, or end after it.
  KOKKOS_INLINE_FUNCTION void addRun(const Found& found, std::int64_t window, std::int64_t number,
                                     std::int64_t place, Real* line) const {
    const std::int64_t begin = place * images.channels, length = images.run_length,
                       first = begin < 0 ? -begin : 0,
                       last = begin + length > images.line ? images.line - begin : length,
                       outputs = images.runs() * images.w.kernel[0] * images.w.kernel[1] * width;
    const Real *factors = found.factors[window], *of_run = weight + number * width;
    const std::uint8_t* numbers = found.outputs[window];
    for (std::int64_t k = 0; k < width;) {
      Real sums[most_vectors * vector_length];
      std::int64_t added = 0;
      withCount<most_vectors>((width - k) / vector_length, [&](auto vectors) {
        addScaledRows<vectors, values_per_vector>(
            found.counts[window], [=](std::int64_t i) { return factors[i]; },
            [=](std::int64_t i) { return of_run + numbers[i] * outputs + k; }, false, sums);
        added = vectors * vector_length;
      });
      Real* to = line + begin + k;
      forLanes(first > k ? first - k : 0, last - k < added ? last - k : added,
               [&](auto lanes, std::int64_t i) {
                 lanes.store(to + i, lanes.load(to + i) + lanes.load(sums + i));
               });
      k += added;
    }
  }
};

/// Weights as runs in whole vectors.
struct PackRuns {
  const Real* weight;
  Real* packed;
  std::int64_t channels, taps, length, runs, width;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t begin, std::int64_t end) const {
    const std::int64_t output = item / runs, first = (item - output * runs) * length;
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t value = first + k, tap = quotient(value, channels);
      packed[item * width + k] =
          k < length ? weight[(output * channels + value - tap * channels) * taps + tap] : Real(0);
    }
  }
};

struct CountZeros {
  const Real* values;
  std::int64_t length;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t& zeros) const {
    std::int32_t own = 0;
    for (std::int64_t i = 0; i < length; ++i) own += values[item * length + i] == Real(0) ? 1 : 0;
    zeros += own;
  }
};

} // namespace

bool mostlyZeros(const ExecSpace& space, const ConvolutionPlan& plan, const Matrix& grad) {
  constexpr std::int64_t rows_to_look_at = 4, shortest_run = 32;
  if (plan.runLength() < shortest_run) return false;
  const std::int64_t rows = std::min<std::int64_t>(grad.extent(0), rows_to_look_at), width = grad.extent(1);
  std::int64_t zeros = 0;
  Kokkos::parallel_reduce("partita::narrow::zeros_kernel", Range(space, 0, rows),
                          CountZeros{grad.data(), width}, zeros);
  return 4 * zeros > 3 * rows * width;
}

void addSparseGradient(const ExecSpace& space, const ConvolutionPlan& plan, const Images& images,
                       const Matrix& grad, bool add, Real* partial) {
  const std::int64_t slices = plan.gradientSlices(), lines = static_cast<std::int64_t>(grad.extent(0)) *
                                                             plan.windows.out[0] * plan.windows.out[1];
  Kokkos::parallel_for("partita::narrow::sparse_gradient_kernel", Range(space, 0, slices * images.outputs),
                       SparseWeightGradient{images, grad.data(), partial, add, lines, slices});
}

bool givesInputGradient(const ConvolutionPlan& plan) {
  return !row_teams && plan.scatters();
}

void inputGradient(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work,
                   const ConvolveGradients& gradients) {
  const Region region(space, "partita::narrow::input_gradient", Phase::gemm);
  const Matrix weight = gradients.weight.real(), grad = gradients.grad.real(),
               grad_in = gradients.grad_in.real();
  const WindowPlan& w = plan.windows;
  const std::int64_t channels = plan.in_channels, line = w.in[2] * channels;
  Real* const packed = alignedIn(work.data());
  const Images images{nullptr,
                      w.inPlaces() * channels,
                      w.in[1] * line,
                      line,
                      channels,
                      plan.out_channels,
                      0,
                      plan.runLength(),
                      w};
  const std::int64_t runs = images.depth() / images.run_length, width = plan.runWidth();
  forEachRun(space, "partita::narrow::pack_runs_kernel", plan.out_channels * runs, width,
             PackRuns{weight.data(), packed, channels, w.taps(), images.run_length, runs, width});
  Kokkos::parallel_for("partita::narrow::input_gradient_kernel", Range(space, 0, grad.extent(0)),
                       InputGradient{images, grad.data(), packed, grad_in.data(), width});
}

#else

bool mostlyZeros(const ExecSpace&, const ConvolutionPlan&, const Matrix&) {
  return false;
}

void addSparseGradient(const ExecSpace&, const ConvolutionPlan&, const Images&, const Matrix&, bool, Real*) {
  PARTITA_FAIL("this build has no kernels for narrow convolutions");
}

bool givesInputGradient(const ConvolutionPlan&) {
  return false;
}

void inputGradient(const ExecSpace&, const ConvolutionPlan&, const Vector&, const ConvolveGradients&) {
  PARTITA_FAIL("this build has no kernels for narrow convolutions");
}

#endif

} // namespace partita::narrow
