#include "partita/nn/pool.hpp"

#include "partita/core/region.hpp"
#include "partita/core/rows.hpp"
#include "partita/nn/pool_kernels.hpp"

namespace partita {

namespace {

struct ChannelMean {
  const Real* in;
  Real* out;
  std::int64_t places;

  /// An item is one channel of one row of the batch.
  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, const Row& row) const {
    const Real* from = in + item * places;
    const Real mean = row.sum(places, [=](std::int64_t i) { return from[i]; }) / static_cast<Real>(places);
    Real* to = out + item;
    row.once([=]() { *to = mean; });
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

void MaxPool::forward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix& out,
                      const Matrix& saved) {
  const Region region(space, "partita::MaxPool::forward", Phase::elementwise);
  forEachRun(space, "partita::MaxPool::forward_kernel", channelsOf(in), _windows.outPlaces(),
             pooling::Largest{_windows, in.data(), out.data(), saved.data()});
}

void MaxPool::backward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix&,
                       const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::MaxPool::backward", Phase::elementwise);
  if constexpr (row_teams) {
    forEachElement(space, "partita::MaxPool::backward_kernel", channelsOf(in), _windows.inPlaces(),
                   pooling::GatherLargestGradient{_windows, saved.data(), grad_out.data(), grad_in.data()});
  } else {
    Kokkos::parallel_for("partita::MaxPool::backward_kernel", Range(space, 0, channelsOf(in)),
                         pooling::LargestGradient{_windows, saved.data(), grad_out.data(), grad_in.data()});
  }
}

void AveragePool::forward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix& out,
                          const Matrix&) {
  const Region region(space, "partita::AveragePool::forward", Phase::elementwise);
  forEachRun(space, "partita::AveragePool::forward_kernel", channelsOf(in), _windows.outPlaces(),
             pooling::Mean{_windows, in.data(), out.data()});
}

void AveragePool::backward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix&,
                           const Matrix&, const Matrix& grad_out, const Matrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::AveragePool::backward", Phase::elementwise);
  if constexpr (row_teams) {
    forEachElement(space, "partita::AveragePool::backward_kernel", channelsOf(in), _windows.inPlaces(),
                   pooling::GatherMeanGradient{_windows, grad_out.data(), grad_in.data()});
  } else {
    Kokkos::parallel_for("partita::AveragePool::backward_kernel", Range(space, 0, channelsOf(in)),
                         pooling::MeanGradient{_windows, grad_out.data(), grad_in.data()});
  }
}

void GlobalAveragePool::forward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix& out,
                                const Matrix&) {
  const Region region(space, "partita::GlobalAveragePool::forward", Phase::elementwise);
  const std::int64_t places = inputs() / _plan.in.front();
  forEachRow(space, "partita::GlobalAveragePool::forward_kernel", channelsOf(in), places,
             ChannelMean{in.data(), out.data(), places});
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
