#include "partita/nn/elementwise.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/activation.hpp"

namespace partita {

namespace {

template <class Act, class Stored>
struct Apply {
  Act act;
  const Stored* in;
  Stored* out;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    out[i] = fromReal<Stored>(act.value(toReal(in[i])));
  }
};

template <class Act, class Stored>
struct ApplyGradient {
  Act act;
  const Stored *in, *out, *grad_out;
  Stored* grad_in;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    grad_in[i] = fromReal<Stored>(toReal(grad_out[i]) * act.derivative(toReal(in[i]), toReal(out[i])));
  }
};

} // namespace

void ActivationLayer::forward(const ExecSpace& space, const Pass&, const TypedMatrix& in,
                              const TypedMatrix& out, const Matrix&) {
  const Region region(space, "partita::ActivationLayer::forward", Phase::elementwise);
  withStored(out.precision, [&](auto stored) {
    using Stored = decltype(stored);
    withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
      forEachValue(space, "partita::ActivationLayer::forward_kernel", out.size(),
                   Apply<decltype(act), Stored>{act, in.as<Stored>(), out.as<Stored>()});
    });
  });
}

void ActivationLayer::backward(const ExecSpace& space, const Pass&, const TypedMatrix& in,
                               const TypedMatrix& out, const Matrix&, const TypedMatrix& grad_out,
                               const TypedMatrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::ActivationLayer::backward", Phase::elementwise);
  withStored(out.precision, [&](auto stored) {
    using Stored = decltype(stored);
    withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
      forEachValue(space, "partita::ActivationLayer::backward_kernel", out.size(),
                   ApplyGradient<decltype(act), Stored>{act, in.as<Stored>(), out.as<Stored>(),
                                                        grad_out.as<Stored>(), grad_in.as<Stored>()});
    });
  });
}

void Flatten::forward(const ExecSpace& space, const Pass&, const TypedMatrix& in, const TypedMatrix& out,
                      const Matrix&) {
  if (_layout.trivial()) return copyValues(space, in, out);
  const Region region(space, "partita::Flatten::forward", Phase::elementwise);
  toShapeOrder(space, _layout, in, out);
}

void Flatten::backward(const ExecSpace& space, const Pass&, const TypedMatrix&, const TypedMatrix&,
                       const Matrix&, const TypedMatrix& grad_out, const TypedMatrix& grad_in) {
  if (grad_in.size() == 0) return;
  if (_layout.trivial()) return copyValues(space, grad_out, grad_in);
  const Region region(space, "partita::Flatten::backward", Phase::elementwise);
  fromShapeOrder(space, _layout, grad_out, grad_in);
}

} // namespace partita
