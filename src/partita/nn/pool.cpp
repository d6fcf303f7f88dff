#include "partita/nn/pool.hpp"

#include "partita/core/region.hpp"
#include "partita/nn/pool_kernels.hpp"

namespace partita {

namespace {

template <class Stored>
struct ChannelMean {
  const Stored* in;
  Stored* out;
  std::int64_t places, channels;

  template <class Channels>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, const Channels& of_row) const {
    const Stored* from = in + row * places * channels;
    const Real share = Real(1) / static_cast<Real>(places);
    Stored* to = out + row * channels;
    const std::int64_t width = channels;
    of_row.sum(
        [=](std::int64_t place, std::int64_t channel) { return toReal(from[place * width + channel]); },
        [=](std::int64_t channel, Real sum) { to[channel] = fromReal<Stored>(sum * share); });
  }
};

template <class Stored>
struct ChannelMeanGradient {
  const Stored* grad_out;
  Stored* grad_in;
  std::int64_t places, channels;
  Real share;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t place, std::int64_t channel) const {
    grad_in[(row * places + place) * channels + channel] =
        fromReal<Stored>(toReal(grad_out[row * channels + channel]) * share);
  }
};

} // namespace

void MaxPool::forward(const ExecSpace& space, const Pass&, const TypedMatrix& in, const TypedMatrix& out,
                      const Matrix& saved) {
  const Region region(space, "partita::MaxPool::forward", Phase::elementwise);
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    forEachPlace(
        space, "partita::MaxPool::forward_kernel", in.rows, _windows.out, channels(),
        pooling::Largest<Stored>{_windows, in.as<Stored>(), out.as<Stored>(), saved.data(), channels()});
  });
}

void MaxPool::backward(const ExecSpace& space, const Pass&, const TypedMatrix& in, const TypedMatrix&,
                       const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::MaxPool::backward", Phase::elementwise);
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    const Stored* from = grad_out.as<Stored>();
    Stored* to = grad_in.as<Stored>();
    if (pooling::tiles(_windows))
      forEachPlace(space, "partita::MaxPool::tiles_backward_kernel", in.rows, _windows.out, channels(),
                   pooling::LargestGradientOfTile<Stored>{_windows, saved.data(), from, to, channels()});
    else
      forEachPlace(space, "partita::MaxPool::backward_kernel", in.rows, _windows.in, channels(),
                   pooling::LargestGradient<Stored>{_windows, saved.data(), from, to, channels()});
  });
}

void AveragePool::forward(const ExecSpace& space, const Pass&, const TypedMatrix& in, const TypedMatrix& out,
                          const Matrix&) {
  const Region region(space, "partita::AveragePool::forward", Phase::elementwise);
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    forEachPlace(space, "partita::AveragePool::forward_kernel", in.rows, _windows.out, channels(),
                 pooling::Mean<Stored>{_windows, in.as<Stored>(), out.as<Stored>(), channels()});
  });
}

void AveragePool::backward(const ExecSpace& space, const Pass&, const TypedMatrix& in, const TypedMatrix&,
                           const Matrix&, const TypedMatrix& grad_out, const TypedMatrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::AveragePool::backward", Phase::elementwise);
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    const Stored* from = grad_out.as<Stored>();
    Stored* to = grad_in.as<Stored>();
    if (pooling::tiles(_windows))
      forEachPlace(space, "partita::AveragePool::tiles_backward_kernel", in.rows, _windows.out, channels(),
                   pooling::MeanGradientOfTile<Stored>{_windows, from, to, channels()});
    else
      forEachPlace(space, "partita::AveragePool::backward_kernel", in.rows, _windows.in, channels(),
                   pooling::MeanGradient<Stored>{_windows, from, to, channels()});
  });
}

void GlobalAveragePool::forward(const ExecSpace& space, const Pass&, const TypedMatrix& in,
                                const TypedMatrix& out, const Matrix&) {
  const Region region(space, "partita::GlobalAveragePool::forward", Phase::elementwise);
  const std::int64_t places = inputs() / channels();
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    forEachImage(space, "partita::GlobalAveragePool::forward_kernel", in.rows, places, channels(),
                 ChannelMean<Stored>{in.as<Stored>(), out.as<Stored>(), places, channels()});
  });
}

void GlobalAveragePool::backward(const ExecSpace& space, const Pass&, const TypedMatrix& in,
                                 const TypedMatrix&, const Matrix&, const TypedMatrix& grad_out,
                                 const TypedMatrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::GlobalAveragePool::backward", Phase::elementwise);
  const std::int64_t places = inputs() / channels();
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    forEachChannel(space, "partita::GlobalAveragePool::backward_kernel", in.rows, places, channels(),
                   ChannelMeanGradient<Stored>{grad_out.as<Stored>(), grad_in.as<Stored>(), places,
                                               channels(), Real(1) / static_cast<Real>(places)});
  });
}

} // namespace partita
