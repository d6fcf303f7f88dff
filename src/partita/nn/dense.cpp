#include "partita/nn/dense.hpp"

#include "partita/core/packs.hpp"
#include "partita/core/region.hpp"
#include "partita/kernels/sparse_products.hpp"
#include "partita/nn/activation.hpp"
#include "partita/nn/initialise.hpp"

namespace partita {

namespace {

/// Are rounded sums stored where the derivative will replace them?
template <class Act, class Stored>
constexpr bool sums_in_saved = Act::needs_argument && !is_real<Stored>;

/// y = act(z + b); `saved`, where it is needed, gets the derivative. Rounded sums contain the bias: a load
/// from a null pointer that vector code masks costs more than all the rest.
template <class Act, class Stored>
struct BiasActivation {
  Act act;
  Stored *out, *saved;
  const Real* bias; // null: none
  std::int64_t width;
  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t row, std::int64_t j) const {
    compute(P(), row * width + j, j);
  }
  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t i) const { // without a bias
    compute(P(), i, 0);
  }

 private:
  template <class P>
  KOKKOS_INLINE_FUNCTION void compute(P, std::int64_t i, std::int64_t j) const {
    const Act local = act;
    auto z = P::load((sums_in_saved<Act, Stored> ? saved : out) + i);
    if constexpr (is_real<Stored>) {
      if (bias != nullptr) z = P::map([](Real a, Real b) { return a + b; }, z, P::load(bias + j));
    }
    const auto y = P::map([=](Real of_z) { return local.value(of_z); }, z);
    if constexpr (Act::needs_argument) // shares subexpressions with y
      P::store(saved + i, P::map([=](Real of_z, Real of_y) { return local.derivative(of_z, of_y); }, z, y));
    P::store(out + i, y);
  }
};

/// dJ/dz = dJ/dy act'(z) in place; returned as it was before it was rounded.
template <class Act, class Stored>
struct PreActivationGradient {
  Act act;
  const Stored *out, *saved;
  Stored* grad;
  std::int64_t width;
  KOKKOS_INLINE_FUNCTION Real operator()(std::int64_t row, std::int64_t j) const {
    const std::int64_t i = row * width + j;
    const Real slope = Act::needs_argument ? toReal(saved[i]) : act.derivative(Real(0), toReal(out[i])),
               product = toReal(grad[i]) * slope;
    grad[i] = fromReal<Stored>(product);
    return product;
  }
  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t row, std::int64_t j) const {
    const std::int64_t i = row * width + j;
    const Act local = act;
    const auto slope =
        P::map([=](Real kept) { return Act::needs_argument ? kept : local.derivative(Real(0), kept); },
               P::load((Act::needs_argument ? saved : out) + i));
    P::store(grad + i, P::map([](Real g, Real s) { return g * s; }, P::load(grad + i), slope));
  }
};

} // namespace

Dense::Dense(const LayerPlan& plan)
    : PlannedLayer(plan), _units(plan.out.back()), _fan_in(isSequence(plan.in) ? plan.in[1] : plan.inputs()) {
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

/// Features of a data set may be mostly zeros; the outputs of other layers are not.
bool Dense::takesSparse(const ExecSpace& space, const TypedMatrix& in) const {
  const bool first = _plan.number == 0 && !isSequence(_plan.in);
  return first && _weights.stored().precision == Precision::single && isSparse(space, in.real(), _units);
}

void Dense::forward(const ExecSpace& space, const Pass&, const TypedMatrix& samples_in,
                    const TypedMatrix& samples_out, const Matrix& samples_saved) {
  const TypedMatrix in = samples_in.inRowsOf(_fan_in), out = samples_out.inRowsOf(_units),
                    saved(out.precision, samples_saved.data(), out.rows, _units);
  if (out.half()) return forwardHalf(space, in, out, saved);
  const bool sparse = takesSparse(space, in), relu = _plan.spec.activation == Activation::relu,
             fused = !sparse && fusesEpilogues() && (relu || _plan.spec.activation == Activation::identity);
  const Vector bias = _bias.values(space);
  if (sparse)
    sparseProduct(space, in.real(), Matrix(static_cast<Real*>(_weights.stored().data), _units, _fan_in),
                  out.real());
  else
    _weights.forward(space, in, out, fused ? ProductEpilogue{bias.data(), relu} : ProductEpilogue{});
  if (fused || (!_plan.spec.dense.bias && _plan.spec.activation == Activation::identity)) return;
  activate(space, out, saved, bias.data());
}

/// The product, with the bias, is rounded where it lies: in the output, or where the derivative comes after.
void Dense::forwardHalf(const ExecSpace& space, const TypedMatrix& in, const TypedMatrix& out,
                        const TypedMatrix& saved) const {
  const bool relu = _plan.spec.activation == Activation::relu;
  const TypedMatrix& sums = needsArgument(_plan.spec.activation) ? saved : out;
  _weights.forward(space, in, sums, _bias.asBias(space, out.precision, relu));
  if (!relu && _plan.spec.activation != Activation::identity) activate(space, out, saved, nullptr);
}

void Dense::activate(const ExecSpace& space, const TypedMatrix& out, const TypedMatrix& saved,
                     const Real* bias) const {
  const Region region(space, "partita::Dense::bias_activation", Phase::elementwise);
  withTypes(out.precision, _plan.spec, [&](auto act, auto stored) {
    using Stored = decltype(stored);
    const BiasActivation<decltype(act), Stored> body{act, out.as<Stored>(), saved.as<Stored>(), bias,
                                                     out.columns};
    const bool aligned = alignedForPacks(body.out, body.saved, bias);
    if (bias == nullptr)
      forEachPack(space, "partita::Dense::bias_activation_kernel", out.size(), aligned, body);
    else
      forEachPack(space, "partita::Dense::bias_activation_kernel", out.rows, out.columns, aligned, body);
  });
}

/// Products with 16-bit weights round their other operand.
bool Dense::roundsGradient(bool accumulate) const {
  const bool read_by_products_alone = _plan.spec.activation == Activation::identity &&
                                      (!_plan.spec.dense.bias || _weights.fusesSums(accumulate));
  return read_by_products_alone && _weights.direct();
}

/// Does the product that gives the gradient of the weights also give that of the bias?
bool Dense::sumsInProduct(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                          const TypedMatrix& grad_in) const {
  return _plan.spec.dense.bias && _weights.fusesSums(pass.accumulate) &&
         !(grad_in.size() == 0 && takesSparse(space, in));
}

/// Replaces dJ/dout by dJ/dz and, if they are wanted, in the same pass computes its column sums, the gradient
/// of the bias.
void Dense::activationGradient(const ExecSpace& space, const Pass& pass, const TypedMatrix& out,
                               const TypedMatrix& saved, const TypedMatrix& grad, bool sums) const {
  if (!sums && _plan.spec.activation == Activation::identity) return;
  const Region region(space, "partita::Dense::activation_gradient", Phase::elementwise);
  withTypes(out.precision, _plan.spec, [&](auto act, auto stored) {
    using Stored = decltype(stored);
    const PreActivationGradient<decltype(act), Stored> body{act, out.as<Stored>(), saved.as<Stored>(),
                                                            grad.as<Stored>(), _units};
    if (sums) {
      sumColumns(space, "partita::Dense::activation_gradient_kernel", grad.rows, _units, body,
                 _bias.gradient(space, pass.accumulate).data(), pass.accumulate);
      _bias.storeGradient(space);
    } else {
      forEachPack(space, "partita::Dense::activation_gradient_kernel", grad.rows, _units,
                  alignedForPacks(body.out, body.saved, body.grad), body);
    }
  });
}

void Dense::backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& samples_in,
                     const TypedMatrix& samples_out, const Matrix& samples_saved,
                     const TypedMatrix& samples_grad_out, const TypedMatrix& samples_grad_in) {
  const TypedMatrix in = samples_in.inRowsOf(_fan_in), out = samples_out.inRowsOf(_units),
                    saved(out.precision, samples_saved.data(), out.rows, _units),
                    grad_out = samples_grad_out.inRowsOf(_units), grad_in = samples_grad_in.inRowsOf(_fan_in);
  const bool in_product = sumsInProduct(space, pass, in, grad_in);
  const TypedSpan sums = in_product ? _bias.storedGradient() : TypedSpan{};
  activationGradient(space, pass, out, saved, grad_out, _plan.spec.dense.bias && !in_product);
  if (grad_in.size() == 0 && takesSparse(space, in)) {
    _weights.changeGradient(space, pass.accumulate, [&](std::int64_t, const Matrix& gradient) {
      sparseGradient(space, in.real(), grad_out.real(), gradient, pass.accumulate);
    });
    return pass.reportGradientsFinal();
  }
  if (pass.inputGradientFirst()) {
    _weights.inputGradient(space, grad_out, grad_in, false);
    pass.reportInputGradient();
    return _weights.addGradient(space, pass.accumulate, in, grad_out, sums);
  }
  _weights.addGradient(space, pass.accumulate, in, grad_out, sums);
  pass.reportGradientsFinal();
  _weights.inputGradient(space, grad_out, grad_in, true);
}

} // namespace partita
