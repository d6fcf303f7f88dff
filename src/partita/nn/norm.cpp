#include "partita/nn/norm.hpp"

#include "partita/comm/part_exchange.hpp"
#include "partita/core/math.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/norm_kernels.hpp"

#include <algorithm>

namespace partita {

namespace {

/// Locates the statistics of a position: one over the root, and for layer-norm the mean after it.
struct Statistics {
  Real* saved;
  bool centred;
  KOKKOS_INLINE_FUNCTION Real& inverse(std::int64_t row) const { return saved[centred ? 2 * row : row]; }
  KOKKOS_INLINE_FUNCTION Real mean(std::int64_t row) const { return centred ? saved[2 * row + 1] : Real(0); }
  KOKKOS_INLINE_FUNCTION void setMean(std::int64_t row, Real mean) const {
    if (centred) saved[2 * row + 1] = mean;
  }
};

struct NormaliseRow {
  const Real *in, *factor, *shift; // shift may be null
  Real* out;
  Statistics statistics;
  std::int64_t width;
  Real epsilon;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const Real *x = in + i * width, *g = factor, *b = shift;
    Real* y = out + i * width;
    const Real share = Real(1) / static_cast<Real>(width);
    const Real mean = statistics.centred ? share * sumOf(row, x, width) : Real(0);
    const Real square = share * squaresAbout(row, x, width, mean);
    const Real inverse = Real(1) / sqrt(square + epsilon);
    const Statistics kept = statistics;
    row.once([=]() {
      kept.inverse(i) = inverse;
      kept.setMean(i, mean);
    });
    if (b != nullptr) {
      row.each(width, [=](std::int64_t j) { y[j] = g[j] * (x[j] - mean) * inverse + b[j]; });
    } else {
      row.each(width, [=](std::int64_t j) { y[j] = g[j] * x[j] * inverse; });
    }
  }
};

/// With h = (x - mean) / root and e = g dJ/dy: dJ/dx = (e - mean(e) - h mean(e h)) / root; if no mean of x is
/// subtracted, the term mean(e) is absent.
struct NormGradientRow {
  const Real *in, *factor, *grad_out;
  Real* grad_in;
  Statistics statistics;
  std::int64_t width;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const Real *x = in + i * width, *g = factor, *dy = grad_out + i * width;
    Real* dx = grad_in + i * width;
    const Real mean = statistics.mean(i), inverse = statistics.inverse(i);
    const Real share = Real(1) / static_cast<Real>(width);
    const Real along =
        share * inverse * row.sum(width, [=](std::int64_t j) { return g[j] * dy[j] * (x[j] - mean); });
    const Real average =
        statistics.centred ? share * row.sum(width, [=](std::int64_t j) { return g[j] * dy[j]; }) : Real(0);
    row.each(width, [=](std::int64_t j) {
      dx[j] = inverse * (g[j] * dy[j] - average - (x[j] - mean) * inverse * along);
    });
  }
};

struct FactorGradient {
  const Real *in, *grad_out;
  Statistics statistics;
  std::int64_t width;
  KOKKOS_INLINE_FUNCTION Real operator()(std::int64_t row, std::int64_t j) const {
    const std::int64_t i = row * width + j;
    return grad_out[i] * (in[i] - statistics.mean(row)) * statistics.inverse(row);
  }
};

struct ShiftGradient {
  const Real* grad_out;
  std::int64_t width;
  KOKKOS_INLINE_FUNCTION Real operator()(std::int64_t row, std::int64_t j) const {
    return grad_out[row * width + j];
  }
};

struct KeepGradient {
  const Real* from;
  Real* to;
  bool adds;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { to[i] = adds ? to[i] + from[i] : from[i]; }
};

} // namespace

Norm::Norm(const LayerPlan& plan, Centre centre)
    : PlannedLayer(plan), _centred(centre == Centre::mean), _width(plan.in.back()) {}

void Norm::bind(const LayerNumbers& numbers) {
  LayerTensors tensors(numbers);
  _factor = tensors.real(_width);
  if (_centred) _shift = tensors.real(_width);
}

void Norm::initialise(std::uint64_t, const std::string& tensor, const TensorSlice& slice,
                      Real* values) const {
  std::fill_n(values, slice.size(), tensor == "weight" ? Real(1) : Real(0));
}

void Norm::forward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix& out,
                   const Matrix& saved) {
  const Region region(space, "partita::Norm::forward", Phase::elementwise);
  const std::int64_t rows = in.size() / _width;
  forEachRow(space, "partita::Norm::forward_kernel", rows, _width,
             NormaliseRow{in.data(), _factor.values.data(), _shift.values.data(), out.data(),
                          Statistics{saved.data(), _centred}, _width,
                          static_cast<Real>(_plan.spec.norm.epsilon)});
}

/// Each part of the stage has added up its positions in the work buffer.
void Norm::addUpGradients(const ExecSpace& space, const Pass& pass) const {
  const std::int64_t values = (_centred ? 2 : 1) * _width;
  Real* const sums = pass.work.data();
  pass.parts->sum(space, Vector(sums, values), Vector(sums + values, pass.work.size() - values));
  forEachValue(space, "partita::Norm::keep_kernel", _width,
               KeepGradient{sums, _factor.gradient.data(), pass.accumulate});
  if (_centred)
    forEachValue(space, "partita::Norm::keep_kernel", _width,
                 KeepGradient{sums + _width, _shift.gradient.data(), pass.accumulate});
}

void Norm::backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix&,
                    const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) {
  const Region region(space, "partita::Norm::backward", Phase::elementwise);
  const std::int64_t rows = in.size() / _width;
  const Statistics statistics{saved.data(), _centred};
  const bool shared = _plan.part && _plan.part->by_positions, keep = pass.accumulate && !shared;
  // Of the positions that this part has, until all parts have added up theirs.
  Real* const factor = shared ? pass.work.data() : _factor.gradient.data();
  sumColumns(space, "partita::Norm::factor_gradient", rows, _width,
             FactorGradient{in.data(), grad_out.data(), statistics, _width}, factor, keep);
  if (_centred) {
    Real* const shift = shared ? pass.work.data() + _width : _shift.gradient.data();
    sumColumns(space, "partita::Norm::shift_gradient", rows, _width, ShiftGradient{grad_out.data(), _width},
               shift, keep);
  }
  if (shared) addUpGradients(space, pass);
  if (grad_in.size() == 0) return;
  forEachRow(
      space, "partita::Norm::backward_kernel", rows, _width,
      NormGradientRow{in.data(), _factor.values.data(), grad_out.data(), grad_in.data(), statistics, _width});
}

} // namespace partita
