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

/// dJ/dz = dJ/dy act'(z) in place, and the bias' gradient as its column sums, in one pass. A work item owns
/// some columns and goes down the rows, so that sums have one order whatever the number of threads.
template <class Act>
struct ActivationBiasGradient {
  static constexpr int columns_an_item = device_is_host ? 64 : 1;
  Act act;
  Matrix out, saved, grad;
  Vector bias_gradient; // empty: none
  bool accumulate;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t first = item * columns_an_item, width = grad.extent(1), rows = grad.extent(0);
    const int count = static_cast<int>(width - first < columns_an_item ? width - first : columns_an_item);
    Real sums[columns_an_item] = {};
    for (std::int64_t i = 0; i < rows; ++i) {
      const Real *y = &out(i, first), *z = Act::needs_argument ? &saved(i, first) : y;
      Real* g = &grad(i, first);
      PARTITA_INDEPENDENT
      for (int j = 0; j < count; ++j) {
        g[j] *= act.derivative(z[j], y[j]);
        sums[j] += g[j];
      }
    }
    if (bias_gradient.size() == 0) return;
    for (int j = 0; j < count; ++j) {
      bias_gradient(first + j) = sums[j] + (accumulate ? bias_gradient(first + j) : Real(0));
    }
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

void Dense::bindTable(const Matrix& table, const Matrix& gradient) {
  if (!_plan.spec.tied) return;
  _weight = table;
  _weight_gradient = gradient;
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

void Dense::backward(const ExecSpace& space, const Pass& pass, const Matrix& samples_in,
                     const Matrix& samples_out, const Matrix& samples_saved, const Matrix& samples_grad_out,
                     const Matrix& samples_grad_in) {
  const Matrix in = rowsOf(samples_in, _fan_in), out = rowsOf(samples_out, _units),
               saved = rowsOf(samples_saved, _units), grad_out = rowsOf(samples_grad_out, _units),
               grad_in = rowsOf(samples_grad_in, _fan_in);
  if (_plan.spec.bias || _plan.spec.activation != Activation::identity) {
    const Region region(space, "partita::Dense::activation_gradient", Phase::elementwise);
    withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
      using Kernel = ActivationBiasGradient<decltype(act)>;
      const std::int64_t items = (out.extent(1) + Kernel::columns_an_item - 1) / Kernel::columns_an_item;
      Kokkos::parallel_for("partita::Dense::activation_gradient_kernel", Range(space, 0, items),
                           Kernel{act, out, saved, grad_out, _bias_gradient, pass.accumulate});
    });
  }
  gemm(space, Op::transpose, Op::none, Real(1), grad_out, in, pass.accumulate ? Real(1) : Real(0),
       _weight_gradient);
  pass.tellGradientsFinal();
  if (grad_in.size() > 0) gemm(space, Op::none, Op::none, Real(1), grad_out, _weight, Real(0), grad_in);
}

} // namespace partita
