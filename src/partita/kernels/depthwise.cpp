#include "partita/kernels/depthwise.hpp"

#include "partita/core/channels.hpp"
#include "partita/core/region.hpp"
#include "partita/kernels/packed_weights.hpp"
#include "partita/kernels/window_taps.hpp"

namespace partita::depthwise {

namespace {

/// Sums of outputs, or with `Back` of gradients of inputs, from the places that their taps see.
template <bool Back>
struct Sum {
  WindowPlan w;
  std::int64_t channels;
  const Real *from, *weight, *bias; // weight: [taps, channels]; bias: null for none
  Real* to;
  bool relu;

  /// An item is a line of sums.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t width = Back ? w.in[2] : w.out[2];
    const Line line(Back ? w.in : w.out, item);
    Real* const own = to + item * width * channels;
    forLanes(0, channels, [&](auto lanes, std::int64_t channel) {
      using L = decltype(lanes);
      for (std::int64_t x = 0; x < width; ++x) {
        auto sum = bias == nullptr ? L::all(Real(0)) : L::load(bias + channel);
        addTaps<L>(line, x, channel, sum);
        const auto zero = L::all(Real(0));
        L::store(own + x * channels + channel, relu ? (sum <= zero ? zero : sum) : sum); // NaN stays NaN
      }
    });
  }

 private:
  KOKKOS_INLINE_FUNCTION std::int64_t seen(int axis, std::int64_t at, std::int64_t tap) const {
    return Back ? windowOf(w, axis, at, tap) : placeOf(w, axis, at, tap);
  }

  template <class L>
  KOKKOS_INLINE_FUNCTION void addTaps(const Line& line, std::int64_t x, std::int64_t channel,
                                      typename L::Values& sum) const {
    const auto& extents = Back ? w.out : w.in;
    const Real* of_tap = weight + channel;
    for (std::int64_t tz = 0; tz < w.kernel[0]; ++tz) {
      const std::int64_t z = seen(0, line.z, tz);
      for (std::int64_t ty = 0; ty < w.kernel[1]; ++ty, of_tap += w.kernel[2] * channels) {
        const std::int64_t y = seen(1, line.y, ty);
        if (z < 0 || y < 0) continue;
        const Real* of_line =
            from + ((line.row * extents[0] + z) * extents[1] + y) * extents[2] * channels + channel;
        for (std::int64_t tx = 0; tx < w.kernel[2]; ++tx) {
          const std::int64_t place = seen(2, x, tx);
          if (place >= 0) sum += L::load(of_line + place * channels) * L::load(of_tap + tx * channels);
        }
      }
    }
  }
};

/// partial [slices, taps, channels] = the gradients of the weights, one per slice of the lines of outputs.
struct WeightSums {
  WindowPlan w;
  std::int64_t channels, lines, slices;
  const Real *in, *grad;
  Real* partial;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t slice) const {
    const std::int64_t values = placesOf(w.kernel) * channels;
    Real* const own = partial + slice * values;
    for (std::int64_t i = 0; i < values; ++i) own[i] = 0;
    for (std::int64_t i = lines * slice / slices; i < lines * (slice + 1) / slices; ++i) addLine(i, own);
  }

 private:
  KOKKOS_INLINE_FUNCTION void addLine(std::int64_t item, Real* sums) const {
    const Line line(w.out, item);
    const Real* of_line = grad + item * w.out[2] * channels;
    for (std::int64_t tz = 0; tz < w.kernel[0]; ++tz) {
      for (std::int64_t ty = 0; ty < w.kernel[1]; ++ty, sums += w.kernel[2] * channels) {
        const std::int64_t z = placeOf(w, 0, line.z, tz), y = placeOf(w, 1, line.y, ty);
        if (z < 0 || y < 0) continue;
        const Real* seen = in + ((line.row * w.in[0] + z) * w.in[1] + y) * w.in[2] * channels;
        for (std::int64_t tx = 0; tx < w.kernel[2]; ++tx)
          addTap(of_line, seen, Tap(w, 2, tx), sums + tx * channels);
      }
    }
  }

  /// Four sums of each channel, because a sum waits for the one before it.
  KOKKOS_INLINE_FUNCTION void addTap(const Real* of_line, const Real* seen, const Tap& tap,
                                     Real* sums) const {
    const std::int64_t stride = w.stride[2];
    forLanes(0, channels, [&](auto lanes, std::int64_t channel) {
      using L = decltype(lanes);
      const auto product = [&](std::int64_t x) {
        return L::load(seen + (tap.place + x * stride) * channels + channel) *
               L::load(of_line + x * channels + channel);
      };
      auto a = L::load(sums + channel), b = L::all(Real(0)), c = b, d = b;
      std::int64_t x = tap.begin;
      for (; x + 4 <= tap.end; x += 4) {
        a += product(x);
        b += product(x + 1);
        c += product(x + 2);
        d += product(x + 3);
      }
      for (; x < tap.end; ++x) a += product(x);
      L::store(sums + channel, (a + b) + (c + d));
    });
  }
};

/// The sums of the slices in their order, in the order of files.
struct AddSlices {
  const Real* partial;
  Real* gradient;
  std::int64_t taps, channels, slices;
  bool accumulate;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t channel, std::int64_t tap) const {
    Real sum = 0;
    for (std::int64_t slice = 0; slice < slices; ++slice)
      sum += partial[(slice * taps + tap) * channels + channel];
    Real& to = gradient[channel * taps + tap];
    to = accumulate ? to + sum : sum;
  }
};

/// Weights in the order [taps, channels], in the scratch.
const Real* tapsInOrder(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work,
                        const Matrix& weight) {
  const Matrix files(weight.data(), 1, weight.size()), own(work.data(), 1, weight.size());
  packWeights(space, plan.windows.taps(), files, own);
  return own.data();
}

void weightGradient(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work,
                    const ConvolveGradients& gradients) {
  const WindowPlan& w = plan.windows;
  const std::int64_t channels = plan.in_channels, taps = w.taps(),
                     lines = gradients.in.rows * w.out[0] * w.out[1],
                     slices = ConvolutionPlan::depthwise_slices;
  const WeightSums sums{
      w, channels, lines, slices, gradients.in.real().data(), gradients.grad.real().data(), work.data()};
  Kokkos::parallel_for("partita::depthwise::weight_kernel", Range(space, 0, slices), sums);
  forEachElement(space, "partita::depthwise::slices_kernel", channels, taps,
                 AddSlices{work.data(), gradients.weight_gradient.real().data(), taps, channels, slices,
                           gradients.accumulate});
}

} // namespace

bool convolves(const ConvolutionPlan& plan) {
  return device_is_host && plan.depthwise();
}

void forward(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work, const Matrix& in,
             const Matrix& weight, const Matrix& out, const ProductEpilogue& epilogue) {
  const Region region(space, "partita::depthwise::forward", Phase::gemm);
  const WindowPlan& w = plan.windows;
  const Sum<false> sum{
      w,          plan.in_channels, in.data(), tapsInOrder(space, plan, work, weight), epilogue.bias,
      out.data(), epilogue.relu};
  Kokkos::parallel_for("partita::depthwise::forward_kernel",
                       Range(space, 0, static_cast<std::int64_t>(in.extent(0)) * w.out[0] * w.out[1]), sum);
}

void backward(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work,
              const ConvolveGradients& gradients) {
  const Region region(space, "partita::depthwise::backward", Phase::gemm);
  const WindowPlan& w = plan.windows;
  if (gradients.ofWeight()) weightGradient(space, plan, work, gradients);
  if (gradients.ofInput()) {
    const Sum<true> sum{w,
                        plan.in_channels,
                        gradients.grad.real().data(),
                        tapsInOrder(space, plan, work, gradients.weight.real()),
                        nullptr,
                        gradients.grad_in.real().data(),
                        false};
    Kokkos::parallel_for("partita::depthwise::input_kernel",
                         Range(space, 0, gradients.in.rows * w.in[0] * w.in[1]), sum);
  }
  if (gradients.between) gradients.between();
}

} // namespace partita::depthwise
