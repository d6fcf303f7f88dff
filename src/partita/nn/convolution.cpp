#include "partita/nn/convolution.hpp"

#include "partita/comm/part_exchange.hpp"
#include "partita/core/channels.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/activation.hpp"
#include "partita/nn/initialise.hpp"

#include <cmath>
#include <functional>

namespace partita {

namespace {

/// out = act(sum + bias) in place.
template <class Act>
struct Finish {
  Act act;
  const Real* bias; // null: none
  Real *out, *saved;
  std::int64_t channels, places;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t place, std::int64_t channel) const {
    const std::int64_t i = (row * places + place) * channels + channel;
    const Real z = out[i] + (bias == nullptr ? Real(0) : bias[channel]);
    if (Act::needs_argument) saved[i] = z;
    out[i] = act.value(z);
  }
};

/// dJ/dz = dJ/dy act'(z) in place, and its sums over the places of each channel of a row.
template <class Act>
struct ChannelActivationGradient {
  Act act;
  const Real *out, *argument;
  Real *grad, *sums;
  std::int64_t channels, places;

  template <class Channels>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, const Channels& of_row) const {
    const Act local = act;
    const std::int64_t begin = row * places * channels, width = channels;
    const Real *y = out + begin, *z = Act::needs_argument ? argument + begin : y;
    Real *g = grad + begin, *to = sums + row * channels;
    of_row.sum(
        [=](std::int64_t place, std::int64_t channel) {
          const std::int64_t i = place * width + channel;
          return g[i] *= local.derivative(z[i], y[i]);
        },
        [=](std::int64_t channel, Real sum) { to[channel] = sum; });
  }
};

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

void Convolution::forward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                          const Matrix& saved) {
  if (pass.outputs != OutputPlaces::all) return forwardInBlocks(space, pass, in, out, saved);
  const bool relu = _plan.spec.activation == Activation::relu,
             fused = relu || _plan.spec.activation == Activation::identity;
  _convolve.forward(space, pass.work, in, _weight, out,
                    fused ? ProductEpilogue{_bias.values.data(), relu} : ProductEpilogue{});
  if (!fused) finish(space, out, saved);
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
  finish(space, out, saved);
}

void Convolution::finish(const ExecSpace& space, const Matrix& out, const Matrix& saved) const {
  if (!_plan.spec.convolution.bias && _plan.spec.activation == Activation::identity) return;
  const Region region(space, "partita::Convolution::finish", Phase::elementwise);
  const std::int64_t places = _c.windows.outPlaces();
  withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
    forEachChannel(
        space, "partita::Convolution::finish_kernel", out.extent(0), places, _c.out_channels,
        Finish<decltype(act)>{act, _bias.values.data(), out.data(), saved.data(), _c.out_channels, places});
  });
}

/// Replaces dJ/dout by dJ/dz and computes the gradient of the bias.
void Convolution::activationGradient(const ExecSpace& space, const Pass& pass, const Matrix& out,
                                     const Matrix& saved, const Matrix& grad) const {
  if (!_plan.spec.convolution.bias && _plan.spec.activation == Activation::identity) return;
  const Region region(space, "partita::Convolution::activation_gradient", Phase::elementwise);
  const std::int64_t rows = grad.extent(0), places = _c.windows.outPlaces();
  Real* sums = pass.work.data() + _c.workValues(rows);
  withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
    forEachImage(space, "partita::Convolution::activation_gradient_kernel", rows, places, _c.out_channels,
                 ChannelActivationGradient<decltype(act)>{act, out.data(), saved.data(), grad.data(), sums,
                                                          _c.out_channels, places});
  });
  if (!_plan.spec.convolution.bias) return;
  sumColumns(space, "partita::Convolution::bias_gradient_kernel", rows, _c.out_channels,
             ValuesOf{sums, _c.out_channels}, _bias.gradient.data(), pass.accumulate);
}

void Convolution::backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                           const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) {
  activationGradient(space, pass, out, saved, grad_out);
  const auto gradients = [&](const Matrix& of_weight, const Matrix& of_in,
                             const std::function<void()>& between = {}) {
    _convolve.backward(space, pass.work, pass.accumulate, in, _weight, grad_out, of_weight, of_in, between);
  };
  if (!pass.inputGradientFirst()) return gradients(_weight_gradient, grad_in);
  gradients(Matrix(), grad_in);
  pass.reportInputGradient();
  gradients(_weight_gradient, Matrix(), [&] { pass.parts->letMove(); });
}

} // namespace partita
