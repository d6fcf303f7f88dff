#include "partita/nn/reencode.hpp"

#include "partita/core/region.hpp"
#include "partita/core/rows.hpp"
#include "partita/kernels/products.hpp"
#include "partita/nn/softmax.hpp"

namespace partita {

namespace {

/// dJ/dz = p (dJ/dp - <p, dJ/dp>), in place of dJ/dp.
struct SoftmaxGradientRow {
  Matrix probabilities, grad;
  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const auto count = static_cast<std::int64_t>(grad.extent(1));
    const Real* p = &probabilities(i, 0);
    Real* g = &grad(i, 0);
    const Real product = row.sumStrided(count, [=](std::int64_t c) { return p[c] * g[c]; });
    row.each(count, [=](std::int64_t c) { g[c] = p[c] * (g[c] - product); });
  }
};

} // namespace

Reencode::Reencode(const SilLabels& labels, int cut, std::int64_t capacity)
    : _labels(labels), _cut(cut),
      _logit_gradient(makeMatrix("partita::Reencode::logit_gradient", capacity, labels.classes())) {}

void Reencode::forward(const ExecSpace& space, const Pass&, const TypedMatrix& in, const TypedMatrix& out,
                       const Matrix& saved) {
  gemm(space, Op::none, Op::transpose, _labels.perTemperature(), in, _labels.centred, Real(0), saved);
  {
    const Region region(space, "partita::Reencode::forward", Phase::elementwise);
    softmax(space, saved, saved);
  }
  gemm(space, Op::none, Op::none, Real(1), saved, _labels.rows, Real(0), out);
}

void Reencode::backward(const ExecSpace& space, const Pass&, const TypedMatrix& in, const TypedMatrix&,
                        const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Matrix logit_gradient = topRows(_logit_gradient, in.rows);
  gemm(space, Op::none, Op::transpose, Real(1), grad_out, _labels.rows, Real(0), logit_gradient);
  {
    const Region region(space, "partita::Reencode::backward", Phase::elementwise);
    forEachRow(space, "partita::Reencode::backward_kernel", in.rows, _labels.classes(),
               SoftmaxGradientRow{saved, logit_gradient});
  }
  gemm(space, Op::none, Op::none, _labels.perTemperature(), logit_gradient, _labels.centred, Real(0),
       grad_in);
}

} // namespace partita
