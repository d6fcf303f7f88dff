#include "partita/nn/dense.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/activation.hpp"
#include "partita/nn/gemm.hpp"
#include "partita/nn/initialise.hpp"

namespace partita {

namespace {

template <class Act>
struct BiasActivation {
  Act act;
  Matrix out, saved;
  Vector bias; // empty: none
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const {
    const Real z = out(i, j) + (bias.size() > 0 ? bias(j) : Real(0));
    if (Act::needs_argument) saved(i, j) = z;
    out(i, j) = act.value(z);
  }
};

/// dJ/dz = dJ/dy act'(z) in place.
template <class Act>
struct ActivationGradient {
  Act act;
  Matrix out, saved, grad;
  KOKKOS_INLINE_FUNCTION Real operator()(std::int64_t i, std::int64_t j) const {
    return grad(i, j) *= act.derivative(Act::needs_argument ? saved(i, j) : Real(0), out(i, j));
  }
};

} // namespace

Dense::Dense(const LayerPlan& plan)
    : PlannedLayer(plan), _units(plan.out.back()), _fan_in(isSequence(plan.in) ? plan.in[1] : plan.inputs()) {
}

/// A row a sample, or a row a position.
Matrix Dense::rowsOf(const Matrix& matrix, std::int64_t width) const {
  if (matrix.size() == 0) return matrix;
  return Matrix(matrix.data(), matrix.size() / static_cast<std::size_t>(width),
                static_cast<std::size_t>(width));
}

void Dense::bind(const Vector& parameters, const Vector& gradients) {
  const std::int64_t weights = _plan.spec.tied ? 0 : _units * _fan_in;
  if (!_plan.spec.tied) {
    _weight = Matrix(parameters.data(), _units, _fan_in);
    _weight_gradient = Matrix(gradients.data(), _units, _fan_in);
  }
  if (_plan.spec.bias) {
    _bias = Vector(parameters.data() + weights, _units);
    _bias_gradient = Vector(gradients.data() + weights, _units);
  }
}

void Dense::bindTable(const Vector& table, const Vector& gradient) {
  if (!_plan.spec.tied) return;
  _weight = Matrix(table.data(), _units, _fan_in);
  _weight_gradient = Matrix(gradient.data(), _units, _fan_in);
}

void Dense::initialise(std::uint64_t seed, Real* values) const {
  if (!_plan.spec.tied) {
    initialiseWeights(_plan.initialisation, seed, _plan.number, _units, _fan_in, values);
    values += _units * _fan_in;
  }
  if (_plan.spec.bias) std::fill_n(values, _units, Real(0));
}

void Dense::forward(const ExecSpace& space, const Pass&, const Matrix& samples_in, const Matrix& samples_out,
                    const Matrix& samples_saved) {
  const Matrix in = rowsOf(samples_in, _fan_in), out = rowsOf(samples_out, _units),
               saved = rowsOf(samples_saved, _units);
  gemm(space, Op::none, Op::transpose, Real(1), in, _weight, Real(0), out);
  if (!_plan.spec.bias && _plan.spec.activation == Activation::identity) return;
  const Region region(space, "partita::Dense::bias_activation", Phase::elementwise);
  withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
    forEachElement(space, "partita::Dense::bias_activation_kernel", out.extent(0), out.extent(1),
                   BiasActivation<decltype(act)>{act, out, saved, _bias});
  });
}

/// dJ/dout becomes dJ/dz, and the bias gets its gradient, the column sums of it, in the same pass.
void Dense::activationGradient(const ExecSpace& space, const Pass& pass, const Matrix& out,
                               const Matrix& saved, const Matrix& grad) const {
  if (!_plan.spec.bias && _plan.spec.activation == Activation::identity) return;
  const Region region(space, "partita::Dense::activation_gradient", Phase::elementwise);
  const auto rows = static_cast<std::int64_t>(grad.extent(0));
  withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
    const ActivationGradient<decltype(act)> body{act, out, saved, grad};
    if (_plan.spec.bias) {
      sumColumns(space, "partita::Dense::activation_gradient_kernel", rows, _units, body,
                 _bias_gradient.data(), pass.accumulate);
    } else {
      forEachElement(space, "partita::Dense::activation_gradient_kernel", rows, _units, body);
    }
  });
}

void Dense::backward(const ExecSpace& space, const Pass& pass, const Matrix& samples_in,
                     const Matrix& samples_out, const Matrix& samples_saved, const Matrix& samples_grad_out,
                     const Matrix& samples_grad_in) {
  const Matrix in = rowsOf(samples_in, _fan_in), out = rowsOf(samples_out, _units),
               saved = rowsOf(samples_saved, _units), grad_out = rowsOf(samples_grad_out, _units),
               grad_in = rowsOf(samples_grad_in, _fan_in);
  activationGradient(space, pass, out, saved, grad_out);
  gemm(space, Op::transpose, Op::none, Real(1), grad_out, in, pass.accumulate ? Real(1) : Real(0),
       _weight_gradient);
  pass.tellGradientsFinal();
  if (grad_in.size() > 0) gemm(space, Op::none, Op::none, Real(1), grad_out, _weight, Real(0), grad_in);
}

} // namespace partita
