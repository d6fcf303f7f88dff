#include "partita/nn/elementwise.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/activation.hpp"

namespace partita {

namespace {

template <class Act>
struct Apply {
  Act act;
  Matrix in, out;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const {
    out(i, j) = act.value(in(i, j));
  }
};

template <class Act>
struct ApplyGradient {
  Act act;
  Matrix in, out, grad_out, grad_in;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const {
    grad_in(i, j) = grad_out(i, j) * act.derivative(in(i, j), out(i, j));
  }
};

} // namespace

void ActivationLayer::forward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix& out,
                              const Matrix&) {
  const Region region(space, "partita::ActivationLayer::forward", Phase::elementwise);
  withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
    forEachElement(space, "partita::ActivationLayer::forward_kernel", out.extent(0), out.extent(1),
                   Apply<decltype(act)>{act, in, out});
  });
}

void ActivationLayer::backward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix& out,
                               const Matrix&, const Matrix& grad_out, const Matrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::ActivationLayer::backward", Phase::elementwise);
  withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
    forEachElement(space, "partita::ActivationLayer::backward_kernel", out.extent(0), out.extent(1),
                   ApplyGradient<decltype(act)>{act, in, out, grad_out, grad_in});
  });
}

void Flatten::forward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix& out,
                      const Matrix&) {
  if (_layout.trivial()) return Kokkos::deep_copy(space, out, in);
  const Region region(space, "partita::Flatten::forward", Phase::elementwise);
  toShapeOrder(space, _layout, in, out);
}

void Flatten::backward(const ExecSpace& space, const Pass&, const Matrix&, const Matrix&, const Matrix&,
                       const Matrix& grad_out, const Matrix& grad_in) {
  if (grad_in.size() == 0) return;
  if (_layout.trivial()) return Kokkos::deep_copy(space, grad_in, grad_out);
  const Region region(space, "partita::Flatten::backward", Phase::elementwise);
  fromShapeOrder(space, _layout, grad_out, grad_in);
}

} // namespace partita
