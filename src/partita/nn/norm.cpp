#include "partita/nn/norm.hpp"

#include "partita/comm/part_exchange.hpp"
#include "partita/core/error.hpp"
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

template <class Stored, class Parameter>
struct NormaliseRow {
  const Stored* in;
  const Parameter *factor, *shift; // shift may be null
  Stored* out;
  Statistics statistics;
  std::int64_t width;
  Real epsilon;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const Stored* x = in + i * width;
    const Parameter *g = factor, *b = shift;
    Stored* y = out + i * width;
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
      row.map(x, y, width, [=](Real value, std::int64_t j) {
        return toReal(g[j]) * (value - mean) * inverse + toReal(b[j]);
      });
    } else {
      row.map(x, y, width, [=](Real value, std::int64_t j) { return toReal(g[j]) * value * inverse; });
    }
  }
};

/// With h = (x - mean) / root and e = g dJ/dy: dJ/dx = (e - mean(e) - h mean(e h)) / root; if no mean of x is
/// subtracted, the term mean(e) is absent.
template <class Stored, class Parameter>
struct NormGradientRow {
  const Stored *in, *grad_out;
  const Parameter* factor;
  Stored* grad_in;
  Statistics statistics;
  std::int64_t width;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const Stored *x = in + i * width, *dy = grad_out + i * width;
    const Parameter* g = factor;
    Stored* dx = grad_in + i * width;
    const Real mean = statistics.mean(i), inverse = statistics.inverse(i);
    const Real share = Real(1) / static_cast<Real>(width);
    const Real along = share * inverse * row.sum(width, [=](std::int64_t j) {
      return toReal(g[j]) * toReal(dy[j]) * (toReal(x[j]) - mean);
    });
    const Real average =
        statistics.centred
            ? share * row.sum(width, [=](std::int64_t j) { return toReal(g[j]) * toReal(dy[j]); })
            : Real(0);
    row.each(width, [=](std::int64_t j) {
      dx[j] = fromReal<Stored>(
          inverse * (toReal(g[j]) * toReal(dy[j]) - average - (toReal(x[j]) - mean) * inverse * along));
    });
  }
};

template <class Stored>
struct FactorGradient {
  const Stored *in, *grad_out;
  Statistics statistics;
  std::int64_t width;
  KOKKOS_INLINE_FUNCTION Real operator()(std::int64_t row, std::int64_t j) const {
    const std::int64_t i = row * width + j;
    return toReal(grad_out[i]) * (toReal(in[i]) - statistics.mean(row)) * statistics.inverse(row);
  }
};

template <class Parameter>
struct KeepGradient {
  const Real* from;
  Parameter* to;
  bool adds;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    to[i] = fromReal<Parameter>(adds ? toReal(to[i]) + from[i] : from[i]);
  }
};

/// body(stored, parameter) with the types of activations and of parameters. These are the same, or
/// activations are `Real`.
template <class Body>
void withBoth(Precision activations, Precision parameters, const Body& body) {
  PARTITA_REQUIRE(activations == parameters || activations == Precision::single,
                  "activations and parameters of different types");
  withStored(parameters, [&](auto parameter) {
    if (activations == parameters)
      body(parameter, parameter);
    else
      body(Real(), parameter);
  });
}

} // namespace

Norm::Norm(const LayerPlan& plan, Centre centre)
    : PlannedLayer(plan), _centred(centre == Centre::mean), _width(plan.in.back()) {}

void Norm::bind(const LayerNumbers& numbers) {
  LayerTensors tensors(numbers);
  _factor = tensors.stored(_width);
  if (_centred) _shift = tensors.stored(_width);
}

void Norm::initialise(std::uint64_t, const std::string& tensor, const TensorSlice& slice,
                      Real* values) const {
  std::fill_n(values, slice.size(), tensor == "weight" ? Real(1) : Real(0));
}

void Norm::forward(const ExecSpace& space, const Pass&, const TypedMatrix& in, const TypedMatrix& out,
                   const Matrix& saved) {
  const Region region(space, "partita::Norm::forward", Phase::elementwise);
  const std::int64_t rows = in.size() / _width;
  withBoth(in.precision, _factor.values.precision, [&](auto stored, auto parameter) {
    using Stored = decltype(stored);
    using Parameter = decltype(parameter);
    forEachRow(space, "partita::Norm::forward_kernel", rows, _width,
               NormaliseRow<Stored, Parameter>{in.as<Stored>(), _factor.valuesAs<Parameter>(),
                                               _shift.valuesAs<Parameter>(), out.as<Stored>(),
                                               Statistics{saved.data(), _centred}, _width,
                                               static_cast<Real>(_plan.spec.norm.epsilon)});
  });
}

/// Each part of the stage has added up its positions in the work buffer.
template <class Parameter>
void Norm::addUpGradients(const ExecSpace& space, const Pass& pass) const {
  const std::int64_t values = (_centred ? 2 : 1) * _width;
  Real* const sums = pass.work.data();
  pass.parts->sum(space, Vector(sums, values), Vector(sums + values, pass.work.size() - values));
  forEachValue(space, "partita::Norm::keep_kernel", _width,
               KeepGradient<Parameter>{sums, _factor.gradientAs<Parameter>(), pass.accumulate});
  if (_centred)
    forEachValue(space, "partita::Norm::keep_kernel", _width,
                 KeepGradient<Parameter>{sums + _width, _shift.gradientAs<Parameter>(), pass.accumulate});
}

void Norm::backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix&,
                    const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) {
  const Region region(space, "partita::Norm::backward", Phase::elementwise);
  withBoth(in.precision, _factor.values.precision, [&](auto stored, auto parameter) {
    using Stored = decltype(stored);
    backwardStored<Stored, decltype(parameter)>(space, pass, in.as<Stored>(), in.size() / _width, saved,
                                                grad_out.as<Stored>(), grad_in.as<Stored>());
  });
}

template <class Stored, class Parameter>
void Norm::backwardStored(const ExecSpace& space, const Pass& pass, const Stored* in, std::int64_t rows,
                          const Matrix& saved, const Stored* grad_out, Stored* grad_in) const {
  const Statistics statistics{saved.data(), _centred};
  const auto add = [&](auto* factor, auto* shift, bool keep) {
    sumColumns(space, "partita::Norm::factor_gradient", rows, _width,
               FactorGradient<Stored>{in, grad_out, statistics, _width}, factor, keep);
    if (_centred)
      sumColumns(space, "partita::Norm::shift_gradient", rows, _width, ValuesOf<Stored>{grad_out, _width},
                 shift, keep);
  };
  if (_plan.part && _plan.part->by_positions) { // of those that this part has, until all have added up theirs
    add(pass.work.data(), pass.work.data() + _width, false);
    addUpGradients<Parameter>(space, pass);
  } else {
    add(_factor.gradientAs<Parameter>(), _shift.gradientAs<Parameter>(), pass.accumulate);
  }
  if (grad_in == nullptr) return;
  forEachRow(space, "partita::Norm::backward_kernel", rows, _width,
             NormGradientRow<Stored, Parameter>{in, grad_out, _factor.valuesAs<Parameter>(), grad_in,
                                                statistics, _width});
}

} // namespace partita
