#include "partita/nn/dense.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/kernels/sparse_products.hpp"
#include "partita/nn/activation.hpp"
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
    const Real y = act.value(z);
    if (Act::needs_argument) saved(i, j) = act.derivative(z, y); // parts of both are the same
    out(i, j) = y;
  }
};

/// dJ/dz = dJ/dy act'(z) in place.
template <class Act>
struct PreActivationGradient {
  Act act;
  Matrix out, saved, grad;
  KOKKOS_INLINE_FUNCTION Real operator()(std::int64_t i, std::int64_t j) const {
    return grad(i, j) *= Act::needs_argument ? saved(i, j) : act.derivative(Real(0), out(i, j));
  }
};

} // namespace

Dense::Dense(const LayerPlan& plan)
    : PlannedLayer(plan), _units(plan.out.back()), _fan_in(isSequence(plan.in) ? plan.in[1] : plan.inputs()) {
}

/// One row per sample or per position.
Matrix Dense::rowsOf(const Matrix& matrix, std::int64_t width) const {
  if (matrix.size() == 0) return matrix;
  return Matrix(matrix.data(), matrix.size() / width, width);
}

void Dense::bind(const LayerNumbers& numbers) {
  LayerTensors tensors(numbers);
  _weights = _plan.spec.dense.tied ? tensors.table(_units, _fan_in) : tensors.weights(_units, _fan_in);
  if (_plan.spec.dense.bias) _bias = tensors.small(_units);
}

void Dense::initialise(std::uint64_t seed, const std::string& tensor, const TensorSlice& slice,
                       Real* values) const {
  if (tensor != "weight") return PlannedLayer::initialise(seed, tensor, slice, values);
  initialiseWeights(_plan.initialisation, {seed, _plan.number, _units, _fan_in}, slice, values);
}

/// Features of a data set may be mostly zeros; what other layers put out is not.
bool Dense::takesSparse(const ExecSpace& space, const Matrix& in) const {
  const bool first = _plan.number == 0 && !isSequence(_plan.in);
  return first && _weights.stored().precision == Precision::single && isSparse(space, in, _units);
}

void Dense::forward(const ExecSpace& space, const Pass&, const Matrix& samples_in, const Matrix& samples_out,
                    const Matrix& samples_saved) {
  const Matrix in = rowsOf(samples_in, _fan_in), out = rowsOf(samples_out, _units),
               saved = rowsOf(samples_saved, _units);
  const bool sparse = takesSparse(space, in), relu = _plan.spec.activation == Activation::relu,
             fused = !sparse && fusesEpilogues() && (relu || _plan.spec.activation == Activation::identity);
  const Vector bias = _bias.values(space);
  if (sparse)
    sparseProduct(space, in, Matrix(static_cast<Real*>(_weights.stored().data), _units, _fan_in), out);
  else
    _weights.forward(space, in, out, fused ? ProductEpilogue{bias.data(), relu} : ProductEpilogue{});
  if (fused || (!_plan.spec.dense.bias && _plan.spec.activation == Activation::identity)) return;
  const Region region(space, "partita::Dense::bias_activation", Phase::elementwise);
  withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
    forEachElement(space, "partita::Dense::bias_activation_kernel", out.extent(0), out.extent(1),
                   BiasActivation<decltype(act)>{act, out, saved, bias});
  });
}

/// Replaces dJ/dout by dJ/dz and in the same pass computes its column sums, the gradient of the bias.
void Dense::activationGradient(const ExecSpace& space, const Pass& pass, const Matrix& out,
                               const Matrix& saved, const Matrix& grad) const {
  if (!_plan.spec.dense.bias && _plan.spec.activation == Activation::identity) return;
  const Region region(space, "partita::Dense::activation_gradient", Phase::elementwise);
  const std::int64_t rows = grad.extent(0);
  withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
    const PreActivationGradient<decltype(act)> body{act, out, saved, grad};
    if (_plan.spec.dense.bias) {
      sumColumns(space, "partita::Dense::activation_gradient_kernel", rows, _units, body,
                 _bias.gradient(space, pass.accumulate).data(), pass.accumulate);
      _bias.storeGradient(space);
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
  if (grad_in.size() == 0 && takesSparse(space, in)) {
    _weights.changeGradient(space, pass.accumulate, [&](std::int64_t, const Matrix& gradient) {
      sparseGradient(space, in, grad_out, gradient, pass.accumulate);
    });
    return pass.reportGradientsFinal();
  }
  if (pass.inputGradientFirst()) {
    _weights.inputGradient(space, grad_out, grad_in, false);
    pass.reportInputGradient();
    return _weights.addGradient(space, pass.accumulate, in, grad_out);
  }
  _weights.addGradient(space, pass.accumulate, in, grad_out);
  pass.reportGradientsFinal();
  _weights.inputGradient(space, grad_out, grad_in, true);
}

} // namespace partita
