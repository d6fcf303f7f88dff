#include "partita/nn/convolution.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/activation.hpp"
#include "partita/nn/columns.hpp"
#include "partita/nn/gemm.hpp"
#include "partita/nn/initialise.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

/// out = act(product + bias). In the products the channels are outermost and the rows of the batch inside
/// them; in the output the rows are outermost.
template <class Act>
struct Finish {
  Act act;
  const Real *products, *bias; // bias null: none
  Real *out, *saved;
  std::int64_t rows, channels, places;

  /// An item is one channel of one row; it runs over places.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t begin, std::int64_t end) const {
    const Act local = act;
    const std::int64_t row = item / channels, channel = item % channels;
    const Real* from = products + (channel * rows + row) * places;
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
  std::int64_t channels, places;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t channel) const {
    const Act local = act;
    const std::int64_t item = row * channels + channel;
    const Real *y = out + item * places, *z = Act::needs_argument ? argument + item * places : y;
    Real* g = grad + item * places;
    sums[item] = laneSum(places, [=](std::int64_t i) { return g[i] *= local.derivative(z[i], y[i]); });
  }
};

/// Adds up sums [rows, channels] over the rows.
struct SumRows {
  const Real* sums;
  Real* out;
  std::int64_t rows, channels;
  bool accumulate;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t channel) const {
    Real sum = accumulate ? out[channel] : Real(0);
    for (std::int64_t row = 0; row < rows; ++row) sum += sums[row * channels + channel];
    out[channel] = sum;
  }
};

/// Products of several rows are stored in the order that a single matrix product needs.
struct Interleave {
  const Real* from;
  Real* to;
  std::int64_t rows, channels, places;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t begin, std::int64_t end) const {
    const std::int64_t row = item / channels, channel = item % channels;
    const Real* source = from + item * places;
    Real* target = to + (channel * rows + row) * places;
    PARTITA_INDEPENDENT
    for (std::int64_t i = begin; i < end; ++i) target[i] = source[i];
  }
};

Matrix asMatrix(Real* values, std::int64_t rows, std::int64_t columns) {
  return Matrix(values, rows, columns);
}

Matrix rowsFrom(const Matrix& matrix, std::int64_t first, std::int64_t rows) {
  const std::int64_t width = matrix.extent(1);
  return asMatrix(matrix.data() + first * width, rows, width);
}

} // namespace

void Convolution::bind(const LayerNumbers& numbers) {
  LayerTensors tensors(numbers);
  const RealTensor weight = tensors.real(_c.out_channels * _c.depth());
  _weight = asMatrix(weight.values.data(), _c.out_channels, _c.depth());
  _weight_gradient = asMatrix(weight.gradient.data(), _c.out_channels, _c.depth());
  if (_plan.spec.convolution.bias) _bias = tensors.real(_c.out_channels);
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

/// In the order of ConvolutionRules::workValues. A single row needs no scratch for products: they lie in the
/// output, or in its gradient.
Convolution::Part Convolution::partOf(const Pass& pass, std::int64_t first, std::int64_t rows,
                                      const Matrix& in, const Matrix& out) const {
  const std::int64_t places = _c.windows.outPlaces(), at_once = _c.rowsAtOnce(rows);
  Part part{first, std::min(at_once, rows - first), {}, {}};
  Real* columns = _c.pointwise() ? rowsFrom(in, first, 1).data() : pass.work.data();
  Real* products = at_once == 1 ? rowsFrom(out, first, 1).data() : pass.work.data() + _c.columnValues(rows);
  part.columns = asMatrix(columns, _c.groups * _c.depth(), part.rows * places);
  part.products = asMatrix(products, _c.out_channels, part.rows * places);
  return part;
}

/// The rows of a matrix that belong to a group of channels.
Matrix Convolution::groupRows(const Matrix& matrix, std::int64_t group) const {
  const std::int64_t rows = matrix.extent(0) / _c.groups;
  return rowsFrom(matrix, group * rows, rows);
}

void Convolution::forward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                          const Matrix& saved) {
  const std::int64_t rows = in.extent(0);
  for (std::int64_t first = 0; first < rows; first += _c.rowsAtOnce(rows)) {
    const Part part = partOf(pass, first, rows, in, out);
    if (!_c.pointwise()) gatherColumns(space, _c.windows, rowsFrom(in, first, part.rows), part.columns);
    for (std::int64_t g = 0; g < _c.groups; ++g)
      gemm(space, Op::none, Op::none, Real(1), groupRows(_weight, g), groupRows(part.columns, g), Real(0),
           groupRows(part.products, g));
    finish(space, part, out, saved);
  }
}

void Convolution::finish(const ExecSpace& space, const Part& part, const Matrix& out,
                         const Matrix& saved) const {
  const Matrix to = rowsFrom(out, part.first, part.rows);
  const bool in_place = part.products.data() == to.data();
  if (in_place && !_plan.spec.convolution.bias && _plan.spec.activation == Activation::identity) return;
  const Region region(space, "partita::Convolution::finish", Phase::elementwise);
  Real* argument = saved.size() > 0 ? rowsFrom(saved, part.first, part.rows).data() : nullptr;
  withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
    forEachRun(space, "partita::Convolution::finish_kernel", part.rows * _c.out_channels,
               _c.windows.outPlaces(),
               Finish<decltype(act)>{act, part.products.data(), _bias.values.data(), to.data(), argument,
                                     part.rows, _c.out_channels, _c.windows.outPlaces()});
  });
}

/// Replaces dJ/dout by dJ/dz and computes the gradient of the bias.
void Convolution::activationGradient(const ExecSpace& space, const Pass& pass, const Matrix& out,
                                     const Matrix& saved, const Matrix& grad) const {
  if (!_plan.spec.convolution.bias && _plan.spec.activation == Activation::identity) return;
  const Region region(space, "partita::Convolution::activation_gradient", Phase::elementwise);
  const std::int64_t rows = grad.extent(0);
  Real* sums = pass.work.data() + _c.columnValues(rows) + _c.productValues(rows);
  withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
    forEachElement(space, "partita::Convolution::activation_gradient_kernel", rows, _c.out_channels,
                   ChannelActivationGradient<decltype(act)>{act, out.data(), saved.data(), grad.data(), sums,
                                                            _c.out_channels, _c.windows.outPlaces()});
  });
  if (!_plan.spec.convolution.bias) return;
  forEachValue(space, "partita::Convolution::bias_gradient_kernel", _c.out_channels,
               SumRows{sums, _bias.gradient.data(), rows, _c.out_channels, pass.accumulate});
}

void Convolution::backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                           const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) {
  const std::int64_t rows = in.extent(0);
  activationGradient(space, pass, out, saved, grad_out);
  for (std::int64_t first = 0; first < rows; first += _c.rowsAtOnce(rows)) {
    const Part part = partOf(pass, first, rows, in, grad_out);
    const Matrix grad = rowsFrom(grad_out, first, part.rows);
    if (part.products.data() != grad.data())
      forEachRun(
          space, "partita::Convolution::interleave_kernel", part.rows * _c.out_channels,
          _c.windows.outPlaces(),
          Interleave{grad.data(), part.products.data(), part.rows, _c.out_channels, _c.windows.outPlaces()});
    if (!_c.pointwise()) gatherColumns(space, _c.windows, rowsFrom(in, first, part.rows), part.columns);
    const Real keep = first > 0 || pass.accumulate ? Real(1) : Real(0);
    for (std::int64_t g = 0; g < _c.groups; ++g)
      gemm(space, Op::none, Op::transpose, Real(1), groupRows(part.products, g), groupRows(part.columns, g),
           keep, groupRows(_weight_gradient, g));
    if (grad_in.size() == 0) continue;
    const Matrix grad_columns = _c.pointwise()
                                    ? asMatrix(rowsFrom(grad_in, first, 1).data(), part.columns.extent(0),
                                               part.columns.extent(1))
                                    : part.columns; // not needed any more
    for (std::int64_t g = 0; g < _c.groups; ++g)
      gemm(space, Op::transpose, Op::none, Real(1), groupRows(_weight, g), groupRows(part.products, g),
           Real(0), groupRows(grad_columns, g));
    if (!_c.pointwise()) scatterColumns(space, _c.windows, grad_columns, rowsFrom(grad_in, first, part.rows));
  }
}

} // namespace partita
