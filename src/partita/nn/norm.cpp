#include "partita/nn/norm.hpp"

#include "partita/comm/part_exchange.hpp"
#include "partita/core/error.hpp"
#include "partita/core/math.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/norm_gradients.hpp"
#include "partita/nn/norm_kernels.hpp"

#include <algorithm>

namespace partita {

namespace {

template <class Stored, class Parameter>
struct NormaliseRow {
  const Stored* in;
  const Parameter *factor, *shift; // shift may be null
  Stored* out;
  NormStatistics statistics;
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
    const NormStatistics kept = statistics;
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
                                               NormStatistics{saved.data(), _centred}, _width,
                                               static_cast<Real>(_plan.spec.norm.epsilon)});
  });
}

/// Each part of the stage has added up its positions in `sums`, which lie in the work buffer.
template <class Parameter>
void Norm::addUpGradients(const ExecSpace& space, const Pass& pass, Real* sums) const {
  const std::int64_t values = (_centred ? 2 : 1) * _width,
                     room = static_cast<std::int64_t>(pass.work.size()) - (sums - pass.work.data());
  pass.parts->sum(space, Vector(sums, values), Vector(sums + values, room - values));
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
    using Parameter = decltype(parameter);
    const NormOperands<Stored, Parameter> operands{in.as<Stored>(),
                                                   grad_out.as<Stored>(),
                                                   _factor.valuesAs<Parameter>(),
                                                   grad_in.as<Stored>(),
                                                   NormStatistics{saved.data(), _centred},
                                                   in.size() / _width,
                                                   _width};
    const std::int64_t groups = normGroups(operands.rows);
    Real *const of_groups = pass.work.data(), *const of_part = of_groups + groups * operands.sums();
    const bool in_groups = addInGroups(space, groups, operands, of_groups);
    const auto add = [&](auto* factor, auto* shift, bool keep) {
      if (in_groups)
        addGroups(space, groups, operands, of_groups, factor, shift, keep);
      else
        addRows(space, operands, factor, shift, keep);
    };
    if (_plan.part &&
        _plan.part->by_positions) { // until all parts have added up the positions that they have
      add(of_part, of_part + _width, false);
      addUpGradients<Parameter>(space, pass, of_part);
    } else {
      add(_factor.gradientAs<Parameter>(), _shift.gradientAs<Parameter>(), pass.accumulate);
    }
    if (operands.grad_in == nullptr || in_groups) return;
    forEachRow(space, "partita::Norm::backward_kernel", operands.rows, _width,
               NormGradientRow<Stored, Parameter>{operands});
  });
}

} // namespace partita
