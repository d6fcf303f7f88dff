#include "partita/nn/elementwise.hpp"

#include "partita/core/image_layout.hpp"
#include "partita/core/packs.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/activation.hpp"

namespace partita {

namespace {

template <class Act, class Stored>
struct Apply {
  Act act;
  const Stored* in;
  Stored* out;
  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t i) const {
    const Act local = act;
    P::store(out + i, P::map([=](Real z) { return local.value(z); }, P::load(in + i)));
  }
};

template <class Act, class Stored>
struct ApplyGradient {
  Act act;
  const Stored *in, *out, *grad_out;
  Stored* grad_in;
  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t i) const {
    const Act local = act;
    P::store(grad_in + i, P::map([=](Real g, Real z, Real y) { return g * local.derivative(z, y); },
                                 P::load(grad_out + i), P::load(in + i), P::load(out + i)));
  }
};

} // namespace

void ActivationLayer::forward(const ExecSpace& space, const Pass&, const TypedMatrix& in,
                              const TypedMatrix& out, const Matrix&) {
  const Region region(space, "partita::ActivationLayer::forward", Phase::elementwise);
  withTypes(out.precision, _plan.spec, [&](auto act, auto stored) {
    using Stored = decltype(stored);
    const Apply<decltype(act), Stored> body{act, in.as<Stored>(), out.as<Stored>()};
    forEachPack(space, "partita::ActivationLayer::forward_kernel", out.size(),
                alignedForPacks(body.in, body.out), body);
  });
}

void ActivationLayer::backward(const ExecSpace& space, const Pass&, const TypedMatrix& in,
                               const TypedMatrix& out, const Matrix&, const TypedMatrix& grad_out,
                               const TypedMatrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::ActivationLayer::backward", Phase::elementwise);
  withTypes(out.precision, _plan.spec, [&](auto act, auto stored) {
    using Stored = decltype(stored);
    const ApplyGradient<decltype(act), Stored> body{act, in.as<Stored>(), out.as<Stored>(),
                                                    grad_out.as<Stored>(), grad_in.as<Stored>()};
    forEachPack(space, "partita::ActivationLayer::backward_kernel", out.size(),
                alignedForPacks(body.in, body.out, body.grad_out, body.grad_in), body);
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
