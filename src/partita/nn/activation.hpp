#pragma once

#include "partita/config/run_config.hpp"
#include "partita/core/error.hpp"
#include "partita/core/math.hpp"
#include "partita/core/typed_span.hpp"

namespace partita {

/// One struct per activation: `value(z)` and its derivative, which gets both the argument z and the value y
/// and uses the cheaper one. `needs_argument` says that z must be kept for the backward pass.

struct Identity {
  static constexpr bool needs_argument = false;
  KOKKOS_INLINE_FUNCTION Real value(Real z) const { return z; }
  KOKKOS_INLINE_FUNCTION Real derivative(Real, Real) const { return Real(1); }
};

/// NaN stays NaN, so that it is noticed; -0 becomes 0.
struct Relu {
  static constexpr bool needs_argument = false;
  KOKKOS_INLINE_FUNCTION Real value(Real z) const { return z <= 0 ? Real(0) : z; }
  KOKKOS_INLINE_FUNCTION Real derivative(Real, Real y) const { return y > 0 ? Real(1) : Real(0); }
};

struct LeakyRelu {
  static constexpr bool needs_argument = false;
  Real slope;
  KOKKOS_INLINE_FUNCTION Real value(Real z) const { return z > 0 ? z : slope * z; }
  KOKKOS_INLINE_FUNCTION Real derivative(Real, Real y) const { return y > 0 ? Real(1) : slope; }
};

struct Tanh {
  static constexpr bool needs_argument = false;
  KOKKOS_INLINE_FUNCTION Real value(Real z) const { return rowTanh(z); }
  KOKKOS_INLINE_FUNCTION Real derivative(Real, Real y) const { return 1 - y * y; }
};

struct Sigmoid {
  static constexpr bool needs_argument = false;
  KOKKOS_INLINE_FUNCTION Real value(Real z) const { return 1 / (1 + rowExp(-z)); }
  KOKKOS_INLINE_FUNCTION Real derivative(Real, Real y) const { return y * (1 - y); }
};

/// z Phi(z), Hendrycks and Gimpel, arXiv 1606.08415, the exact form.
struct Gelu {
  static constexpr bool needs_argument = true;
  KOKKOS_INLINE_FUNCTION Real value(Real z) const { return z * normalCdf(z, rowExp(Real(-0.5) * z * z)); }
  KOKKOS_INLINE_FUNCTION Real derivative(Real z, Real) const {
    const Real e = rowExp(Real(-0.5) * z * z);
    return normalCdf(z, e) + z * Real(0.39894228040143268) * e;
  }
};

/// z sigmoid(z), Elfwing, Uchibe and Doya, arXiv 1702.03118.
struct Silu {
  static constexpr bool needs_argument = true;
  KOKKOS_INLINE_FUNCTION Real value(Real z) const { return z / (1 + rowExp(-z)); }
  KOKKOS_INLINE_FUNCTION Real derivative(Real z, Real) const {
    const Real sigmoid = 1 / (1 + rowExp(-z));
    return sigmoid * (1 + z * (1 - sigmoid));
  }
};

/// Calls `body` with the struct of an activation, so that a kernel is compiled for each.
template <class Body>
void withActivation(Activation activation, double slope, const Body& body) {
  switch (activation) {
  case Activation::identity:
    return body(Identity{});
  case Activation::relu:
    return body(Relu{});
  case Activation::leaky_relu:
    return body(LeakyRelu{static_cast<Real>(slope)});
  case Activation::gelu:
    return body(Gelu{});
  case Activation::tanh:
    return body(Tanh{});
  case Activation::sigmoid:
    return body(Sigmoid{});
  case Activation::silu:
    return body(Silu{});
  }
  PARTITA_FAIL("unknown activation");
}

/// Calls `body` with the activation of a layer, and a number of the type that stores numbers of the given
/// precision.
template <class Body>
void withTypes(Precision precision, const LayerSpec& spec, const Body& body) {
  withStored(precision, [&](auto stored) {
    withActivation(spec.activation, spec.slope, [&](auto act) { body(act, stored); });
  });
}

} // namespace partita
