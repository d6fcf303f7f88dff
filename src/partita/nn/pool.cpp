#include "partita/nn/pool.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/pool_kernels.hpp"

namespace partita {

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
  Kokkos::parallel_for("partita::MaxPool::backward_kernel", Range(space, 0, channelsOf(in)),
                       pooling::LargestGradient{_windows, saved.data(), grad_out.data(), grad_in.data()});
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
  Kokkos::parallel_for("partita::AveragePool::backward_kernel", Range(space, 0, channelsOf(in)),
                       pooling::MeanGradient{_windows, grad_out.data(), grad_in.data()});
}

} // namespace partita
