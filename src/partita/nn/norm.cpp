#include "partita/nn/norm.hpp"

#include "partita/core/loops.hpp"
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

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row) const {
    const Real* x = in + row * width;
    Real* y = out + row * width;
    const Real share = Real(1) / static_cast<Real>(width);
    const Real mean = statistics.centred ? share * sumOf(x, width) : Real(0);
    const Real square = share * squaresAbout(x, width, mean);
    const Real inverse = Real(1) / sqrt(square + epsilon);
    statistics.inverse(row) = inverse;
    statistics.setMean(row, mean);
    if (shift != nullptr) {
      PARTITA_INDEPENDENT
      for (std::int64_t j = 0; j < width; ++j) y[j] = factor[j] * (x[j] - mean) * inverse + shift[j];
    } else {
      PARTITA_INDEPENDENT
      for (std::int64_t j = 0; j < width; ++j) y[j] = factor[j] * x[j] * inverse;
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

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row) const {
    const Real *x = in + row * width, *g = factor, *dy = grad_out + row * width;
    Real* dx = grad_in + row * width;
    const Real mean = statistics.mean(row), inverse = statistics.inverse(row);
    const Real share = Real(1) / static_cast<Real>(width);
    const Real along =
        share * inverse * laneSum(width, [=](std::int64_t j) { return g[j] * dy[j] * (x[j] - mean); });
    const Real average =
        statistics.centred ? share * laneSum(width, [=](std::int64_t j) { return g[j] * dy[j]; }) : Real(0);
    PARTITA_INDEPENDENT
    for (std::int64_t j = 0; j < width; ++j)
      dx[j] = inverse * (g[j] * dy[j] - average - (x[j] - mean) * inverse * along);
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
  Kokkos::parallel_for("partita::Norm::forward_kernel", Range(space, 0, rows),
                       NormaliseRow{in.data(), _factor.values.data(), _shift.values.data(), out.data(),
                                    Statistics{saved.data(), _centred}, _width,
                                    static_cast<Real>(_plan.spec.norm.epsilon)});
}

void Norm::backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix&,
                    const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) {
  const Region region(space, "partita::Norm::backward", Phase::elementwise);
  const std::int64_t rows = in.size() / _width;
  const Statistics statistics{saved.data(), _centred};
  sumColumns(space, "partita::Norm::factor_gradient", rows, _width,
             FactorGradient{in.data(), grad_out.data(), statistics, _width}, _factor.gradient.data(),
             pass.accumulate);
  if (_centred) {
    sumColumns(space, "partita::Norm::shift_gradient", rows, _width, ShiftGradient{grad_out.data(), _width},
               _shift.gradient.data(), pass.accumulate);
  }
  if (grad_in.size() == 0) return;
  Kokkos::parallel_for(
      "partita::Norm::backward_kernel", Range(space, 0, rows),
      NormGradientRow{in.data(), _factor.values.data(), grad_out.data(), grad_in.data(), statistics, _width});
}

} // namespace partita
