#include "partita/nn/global_pool.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"

namespace partita {

namespace {

struct ChannelMean {
  const Real* in;
  Real* out;
  std::int64_t channels, places;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t channel) const {
    const std::int64_t item = row * channels + channel;
    const Real* from = in + item * places;
    out[item] = laneSum(places, [=](std::int64_t i) { return from[i]; }) / static_cast<Real>(places);
  }
};

struct ChannelMeanGradient {
  const Real* grad_out;
  Real* grad_in;
  std::int64_t places;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t begin, std::int64_t end) const {
    const Real share = grad_out[item] / static_cast<Real>(places);
    for (std::int64_t i = begin; i < end; ++i) grad_in[item * places + i] = share;
  }
};

} // namespace

void GlobalAveragePool::forward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix& out,
                                const Matrix&) {
  const Region region(space, "partita::GlobalAveragePool::forward", Phase::elementwise);
  const std::int64_t channels = _plan.in.front();
  forEachElement(space, "partita::GlobalAveragePool::forward_kernel", in.extent(0), channels,
                 ChannelMean{in.data(), out.data(), channels, inputs() / channels});
}

void GlobalAveragePool::backward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix&,
                                 const Matrix&, const Matrix& grad_out, const Matrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::GlobalAveragePool::backward", Phase::elementwise);
  const std::int64_t places = inputs() / _plan.in.front();
  forEachRun(space, "partita::GlobalAveragePool::backward_kernel", channelsOf(in), places,
             ChannelMeanGradient{grad_out.data(), grad_in.data(), places});
}

} // namespace partita
