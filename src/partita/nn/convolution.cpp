#include "partita/nn/convolution.hpp"

#include "partita/comm/part_exchange.hpp"
#include "partita/core/packs.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/activation.hpp"
#include "partita/nn/channel_sums.hpp"
#include "partita/nn/initialise.hpp"

#include <cmath>

namespace partita {

namespace {

/// out = act(sum + bias). Rounded sums contain the bias, and lie where the argument is saved, if it is;
/// others lie in `out`.
template <class Act, class Stored>
struct Finish {
  static constexpr bool sums_in_saved = Act::needs_argument && !is_real<Stored>;
  Act act;
  const Real* bias; // null: none
  Stored *out, *saved;
  std::int64_t channels, places;

  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t row, std::int64_t place,
                                         std::int64_t channel) const {
    const std::int64_t i = (row * places + place) * channels + channel;
    const Act local = act;
    auto z = P::load((sums_in_saved ? saved : out) + i);
    if constexpr (is_real<Stored>) {
      if (bias != nullptr) z = P::map([](Real a, Real b) { return a + b; }, z, P::load(bias + channel));
    }
    if constexpr (Act::needs_argument && !sums_in_saved) P::store(saved + i, z);
    P::store(out + i, P::map([=](Real of_z) { return local.value(of_z); }, z));
  }
};

/// dJ/dz = dJ/dy act'(z) in place, and its sums over the places of each channel of a row.
template <class Act, class Stored>
struct ChannelActivationGradient {
  Act act;
  const Stored *out, *argument;
  Stored* grad;
  Real* sums;
  std::int64_t channels, places;

  bool aligned() const { return alignedForPacks(out, argument, grad); }

  template <class Channels>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, const Channels& of_row) const {
    const Act local = act;
    const std::int64_t begin = row * places * channels, width = channels;
    const Stored *y = out + begin, *z = Act::needs_argument ? argument + begin : y;
    Stored* g = grad + begin;
    Real* to = sums + row * channels;
    of_row.sum(
        [=](auto pack, std::int64_t channel) {
          return [=](std::int64_t place) {
            const std::int64_t i = place * width + channel;
            const auto product =
                pack.map([=](Real of_out, Real argument_value,
                             Real value) { return of_out * local.derivative(argument_value, value); },
                         pack.load(g + i), pack.load(z + i), pack.load(y + i));
            pack.store(g + i, product);
            return product;
          };
        },
        [=](std::int64_t channel, Real sum) { to[channel] = sum; });
  }
};

/// Some rows of 16-bit values as `Real`, at the end of the scratch.
struct RealRows {
  RealRows(const Pass& pass, const TypedMatrix& of_in, const TypedMatrix& of_out, std::int64_t its_count)
      : count(its_count), place(pass.workAtEnd(count * (2 * of_in.columns + of_out.columns)).data()),
        in(place, count, of_in.columns), grad_in(place + in.size(), count, of_in.columns),
        out(grad_in.data() + in.size(), count, of_out.columns) {}
  std::int64_t count;
  Real* place;
  Matrix in, grad_in, out;
};

/// body(first, rows) for at most `at_once` rows at a time, with the input in `Real`.
template <class Body>
void eachRealRows(const ExecSpace& space, std::int64_t at_once, const Pass& pass, const TypedMatrix& in,
                  const TypedMatrix& out, const Body& body) {
  eachRows(in.rows, at_once, [&](std::int64_t first, std::int64_t count) {
    const RealRows rows(pass, in, out, count);
    copyValues(space, in.rowsFrom(first, count), rows.in);
    body(first, rows);
  });
}

} // namespace

void Convolution::bind(const LayerNumbers& numbers) {
  LayerTensors tensors(numbers);
  const RealTensor weight = tensors.real(_c.out_channels * _c.depth());
  _weight = Matrix(weight.values.data(), _c.out_channels, _c.depth());
  _weight_gradient = Matrix(weight.gradient.data(), _c.out_channels, _c.depth());
  if (_plan.spec.convolution.bias) _bias = tensors.real(_c.out_channels);
  _convolve = Convolve(_c, numbers.exact_in);
}

void Convolution::initialise(std::uint64_t seed, const std::string& tensor, const TensorSlice& slice,
                             Real* values) const {
  if (tensor != "weight") return PlannedLayer::initialise(seed, tensor, slice, values);
  const std::int64_t outputs = _c.out_channels, inputs = _c.depth();
  initialiseWeights(_plan.initialisation, {seed, _plan.number, outputs, inputs}, slice, values);
  if (_plan.initialisation == Initialisation::xavier) { // each input reaches `taps` windows
    const double fan_out = static_cast<double>(outputs * _c.windows.taps()),
                 ratio = static_cast<double>(inputs + outputs) / (static_cast<double>(inputs) + fan_out);
    for (std::int64_t i = 0; i < slice.size(); ++i) values[i] *= static_cast<Real>(std::sqrt(ratio));
  }
}

void Convolution::forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                          const TypedMatrix& out, const Matrix& saved) {
  if (pass.outputs != OutputPlaces::all) return forwardInBlocks(space, pass, in.real(), out.real(), saved);
  const bool relu = _plan.spec.activation == Activation::relu,
             fused = relu || _plan.spec.activation == Activation::identity;
  const TypedMatrix kept = likeOutput(saved, out);
  if (out.half()) { // the sums, with the bias, are rounded where they lie
    const TypedMatrix& sums = needsArgument(_plan.spec.activation) ? kept : out;
    convolve(space, pass, in, sums, {_bias.values.data(), relu});
    if (!fused) finish(space, out, kept, nullptr);
    return;
  }
  _convolve.forward(space, pass.work, in, _weight, out,
                    fused ? ProductEpilogue{_bias.values.data(), relu} : ProductEpilogue{});
  if (!fused) finish(space, out, kept, _bias.values.data());
}

TypedMatrix Convolution::likeOutput(const Matrix& saved, const TypedMatrix& out) {
  return TypedMatrix(out.precision, saved.data(), out.rows, out.columns);
}

/// Sums of 16 bits: rows are converted to `Real` unless their values can be used as they are.
void Convolution::convolve(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                           const TypedMatrix& sums, const ProductEpilogue& epilogue) const {
  if (_convolve.forwardTakesHalf(in, sums))
    return _convolve.forward(space, pass.work, in, _weight, sums, epilogue);
  eachRealRows(space, _c.rowsInReal(in.rows), pass, in, sums, [&](std::int64_t first, const RealRows& rows) {
    _convolve.forward(space, pass.work, rows.in, _weight, rows.out, epilogue);
    copyValues(space, rows.out, sums.rowsFrom(first, rows.count));
  });
}

/// Sums block by block, then what remains to be done for all of them.
void Convolution::forwardInBlocks(const ExecSpace& space, const Pass& pass, const Matrix& in,
                                  const Matrix& out, const Matrix& saved) const {
  const Block& interior = _plan.part->interior;
  if (pass.outputs == OutputPlaces::interior)
    return _convolve.forwardBlock(space, pass.work, in, _weight, out, interior,
                                  [&] { pass.parts->letMove(); });
  for (const Block& block : aroundInterior(interior, _c.windows.out))
    _convolve.forwardBlock(space, pass.work, in, _weight, out, block);
  finish(space, out, likeOutput(saved, out), _bias.values.data());
}

void Convolution::finish(const ExecSpace& space, const TypedMatrix& out, const TypedMatrix& saved,
                         const Real* bias) const {
  if (bias == nullptr && _plan.spec.activation == Activation::identity) return;
  const Region region(space, "partita::Convolution::finish", Phase::elementwise);
  const std::int64_t places = _c.windows.outPlaces();
  withTypes(out.precision, _plan.spec, [&](auto act, auto stored) {
    using Stored = decltype(stored);
    const Finish<decltype(act), Stored> body{
        act, bias, out.as<Stored>(), saved.as<Stored>(), _c.out_channels, places};
    forEachChannelPack(space, "partita::Convolution::finish_kernel", out.rows, places, _c.out_channels,
                       alignedForPacks(bias, body.out, body.saved), body);
  });
}

/// Replaces dJ/dout by dJ/dz and computes the gradient of the bias.
void Convolution::activationGradient(const ExecSpace& space, const Pass& pass, const TypedMatrix& out,
                                     const TypedMatrix& saved, const TypedMatrix& grad) const {
  if (!_plan.spec.convolution.bias && _plan.spec.activation == Activation::identity) return;
  const Region region(space, "partita::Convolution::activation_gradient", Phase::elementwise);
  const std::int64_t rows = grad.rows, places = _c.windows.outPlaces();
  const std::int64_t before = _c.workValues(rows);
  PARTITA_REQUIRE(before + rows * _c.out_channels <= static_cast<std::int64_t>(pass.work.size()),
                  "scratch that does not hold the sums of a convolution");
  Real* sums = pass.work.data() + before;
  withTypes(out.precision, _plan.spec, [&](auto act, auto stored) {
    using Stored = decltype(stored);
    const ChannelActivationGradient<decltype(act), Stored> body{
        act, out.as<Stored>(), saved.as<Stored>(), grad.as<Stored>(), sums, _c.out_channels, places};
    forEachImage(space, "partita::Convolution::activation_gradient_kernel", rows, places, _c.out_channels,
                 body.aligned(), body);
  });
  if (!_plan.spec.convolution.bias) return;
  sumColumns(space, "partita::Convolution::bias_gradient_kernel", rows, _c.out_channels,
             ValuesOf<Real>{sums, _c.out_channels}, _bias.gradient.data(), pass.accumulate);
}

void Convolution::backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                           const TypedMatrix& out, const Matrix& saved, const TypedMatrix& grad_out,
                           const TypedMatrix& grad_in) {
  activationGradient(space, pass, out, likeOutput(saved, out), grad_out);
  const bool half = in.half() && in.rows > 0; // without rows there is nothing to convert
  if (half && !_convolve.backwardTakesHalf(in, grad_out, grad_in))
    return backwardInReal(space, pass, in, grad_out, grad_in);
  const auto gradients = [&](const Matrix& of_weight, const TypedMatrix& of_in, const Between& between = {}) {
    const bool in_real = of_weight.size() > 0 && half && _convolve.sumsWeightsInReal();
    if (in_real) weightGradientInReal(space, pass, in, grad_out, between);
    if (in_real && of_in.size() == 0) return;
    _convolve.backward(
        space, pass.work,
        {in, grad_out, _weight, in_real ? Matrix() : of_weight, of_in, pass.accumulate, between});
  };
  if (!pass.inputGradientFirst()) return gradients(_weight_gradient, grad_in);
  gradients(Matrix(), grad_in);
  pass.reportInputGradient();
  gradients(_weight_gradient, Matrix(), [&] { pass.parts->letMove(); });
}

void Convolution::weightGradientInReal(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                                       const TypedMatrix& grad, const Between& between) const {
  eachRealRows(space, _c.rowsInReal(in.rows), pass, in, grad, [&](std::int64_t first, const RealRows& rows) {
    copyValues(space, grad.rowsFrom(first, rows.count), rows.out);
    _convolve.weightGradientInReal(
        space, pass.work,
        {rows.in, rows.out, _weight, _weight_gradient, {}, pass.accumulate || first > 0, between});
  });
}

void Convolution::backwardInReal(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                                 const TypedMatrix& grad, const TypedMatrix& grad_in) const {
  const bool wanted = grad_in.size() > 0;
  eachRealRows(space, _c.rowsInReal(in.rows), pass, in, grad, [&](std::int64_t first, const RealRows& rows) {
    copyValues(space, grad.rowsFrom(first, rows.count), rows.out);
    _convolve.backward(space, pass.work,
                       {rows.in, rows.out, _weight, _weight_gradient, wanted ? rows.grad_in : Matrix(),
                        pass.accumulate || first > 0});
    if (wanted) copyValues(space, rows.grad_in, grad_in.rowsFrom(first, rows.count));
  });
}

} // namespace partita
