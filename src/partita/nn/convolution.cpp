#include "partita/nn/convolution.hpp"

#include "partita/comm/part_exchange.hpp"
#include "partita/core/region.hpp"
#include "partita/core/rows.hpp"
#include "partita/nn/activation.hpp"
#include "partita/nn/initialise.hpp"

#include <cmath>
#include <functional>

namespace partita {

namespace {

/// out = act(sum + bias).
template <class Act>
struct Finish {
  Act act;
  ConvolveSums sums;
  const Real* bias; // null: none
  Real *out, *saved;
  std::int64_t channels, places;

  /// An item is one channel of one row; it runs over places.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t begin, std::int64_t end) const {
    const Act local = act;
    const std::int64_t row = item / channels, channel = item % channels;
    const Real* from = sums.data + row * sums.row_stride + channel * sums.channel_stride;
    Real *to = out + item * places, *argument = saved + item * places;
    const Real shift = bias == nullptr ? Real(0) : bias[channel];
    PARTITA_INDEPENDENT
    for (std::int64_t i = begin; i < end; ++i) {
      const Real z = from[i] + shift;
      if (Act::needs_argument) argument[i] = z;
      to[i] = local.value(z);
    }
  }
};

/// dJ/dz = dJ/dy act'(z) in place, and its sums over the places of each channel of a row.
template <class Act>
struct ChannelActivationGradient {
  Act act;
  const Real *out, *argument;
  Real *grad, *sums;
  std::int64_t places;

  /// An item is one channel of one row.
  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, const Row& row) const {
    const Act local = act;
    const Real *y = out + item * places, *z = Act::needs_argument ? argument + item * places : y;
    Real *g = grad + item * places, *to = sums + item;
    const Real sum = row.sum(places, [=](std::int64_t i) { return g[i] *= local.derivative(z[i], y[i]); });
    row.once([=]() { *to = sum; });
  }
};

/// Adds up sums [rows, channels] over the rows.
struct SumRows {
  const Real* sums;
  Real* out;
  std::int64_t rows, channels;
  bool accumulate;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t channel, const Row& row) const {
    if (rows == 0 && accumulate) return;
    const Real* own = sums + channel;
    const std::int64_t step = channels;
    const Real old = accumulate ? out[channel] : Real(0);
    const Real sum =
        row.sumInOrder(rows, [=](std::int64_t i) { return i == 0 ? old + own[0] : own[i * step]; });
    Real* to = out + channel;
    row.once([=]() { *to = sum; });
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
  const auto finished = [&](const ConvolveSums& sums) { finish(space, sums, out, saved); };
  _convolve.forward(space, pass.work, in, _weight, out, std::ref(finished));
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
  const std::int64_t places = _c.windows.outPlaces(), width = out.extent(1);
  finish(space, {out.data(), 0, static_cast<std::int64_t>(out.extent(0)), width, places}, out, saved);
}

void Convolution::finish(const ExecSpace& space, const ConvolveSums& sums, const Matrix& out,
                         const Matrix& saved) const {
  const Matrix to = rowsFrom(out, sums.first, sums.rows);
  const bool in_place = sums.data == to.data();
  if (in_place && !_plan.spec.convolution.bias && _plan.spec.activation == Activation::identity) return;
  const Region region(space, "partita::Convolution::finish", Phase::elementwise);
  Real* argument = saved.size() > 0 ? rowsFrom(saved, sums.first, sums.rows).data() : nullptr;
  withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
    forEachRun(space, "partita::Convolution::finish_kernel", sums.rows * _c.out_channels,
               _c.windows.outPlaces(),
               Finish<decltype(act)>{act, sums, _bias.values.data(), to.data(), argument, _c.out_channels,
                                     _c.windows.outPlaces()});
  });
}

/// Replaces dJ/dout by dJ/dz and computes the gradient of the bias.
void Convolution::activationGradient(const ExecSpace& space, const Pass& pass, const Matrix& out,
                                     const Matrix& saved, const Matrix& grad) const {
  if (!_plan.spec.convolution.bias && _plan.spec.activation == Activation::identity) return;
  const Region region(space, "partita::Convolution::activation_gradient", Phase::elementwise);
  const std::int64_t rows = grad.extent(0);
  Real* sums = pass.work.data() + _c.workValues(rows);
  withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
    forEachRow(space, "partita::Convolution::activation_gradient_kernel", rows * _c.out_channels,
               _c.windows.outPlaces(),
               ChannelActivationGradient<decltype(act)>{act, out.data(), saved.data(), grad.data(), sums,
                                                        _c.windows.outPlaces()});
  });
  if (!_plan.spec.convolution.bias) return;
  forEachRow(space, "partita::Convolution::bias_gradient_kernel", _c.out_channels, rows,
             SumRows{sums, _bias.gradient.data(), rows, _c.out_channels, pass.accumulate});
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
