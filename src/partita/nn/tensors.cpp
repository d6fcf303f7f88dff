#include "partita/nn/tensors.hpp"

#include "partita/nn/gemm.hpp"

#include <utility>

namespace partita {

namespace {

/// The same numbers if they are `Real` already, otherwise room for them.
TypedSpan realOf(const TypedSpan& stored, Real* scratch) {
  if (stored.precision == Precision::single) return stored;
  return {Precision::single, scratch, stored.size};
}

Vector asVector(const TypedSpan& real) {
  return Vector(static_cast<Real*>(real.data), real.size);
}

/// A range of columns of a matrix.
Matrix columnsOf(const Matrix& matrix, std::int64_t first, std::int64_t count) {
  return Kokkos::subview(matrix, Kokkos::ALL, std::make_pair(first, first + count));
}

} // namespace

SmallTensor::SmallTensor(const TypedSpan& values, const TypedSpan& gradient, Real* scratch,
                         Real* gradient_scratch)
    : _values(values), _gradient(gradient), _real_values(realOf(values, scratch)),
      _real_gradient(realOf(gradient, gradient_scratch)) {}

Vector SmallTensor::values(const ExecSpace& space) const {
  if (_values.precision != Precision::single) convert(space, _values, _real_values);
  return asVector(_real_values);
}

Vector SmallTensor::gradient(const ExecSpace& space, bool keep) const {
  if (_gradient.precision != Precision::single && keep) convert(space, _gradient, _real_gradient);
  return asVector(_real_gradient);
}

void SmallTensor::storeGradient(const ExecSpace& space) const {
  if (_gradient.precision != Precision::single) convert(space, _real_gradient, _gradient);
}

Weights::Weights(const TypedSpan& values, const TypedSpan& gradient, std::int64_t rows, std::int64_t columns,
                 Real* scratch, Real* gradient_scratch)
    : _values(values), _gradient(gradient), _rows(rows), _columns(columns), _scratch(scratch),
      _gradient_scratch(gradient_scratch) {}

template <class Body>
void Weights::readPanels(const ExecSpace& space, const Body& body) const {
  eachPanel(_values, _scratch, [&](std::int64_t first, const TypedSpan& stored, const Matrix& panel) {
    if (stored.data != panel.data()) convert(space, stored, panel);
    body(first, panel);
  });
}

void Weights::forward(const ExecSpace& space, const Matrix& in, const Matrix& out) const {
  readPanels(space, [&](std::int64_t first, const Matrix& panel) {
    gemm(space, Op::none, Op::transpose, Real(1), in, panel, Real(0), columnsOf(out, first, panel.extent(0)));
  });
}

void Weights::addGradient(const ExecSpace& space, bool keep, const Matrix& in, const Matrix& grad_out) const {
  changeGradient(space, keep, [&](std::int64_t first, const Matrix& panel) {
    gemm(space, Op::transpose, Op::none, Real(1), columnsOf(grad_out, first, panel.extent(0)), in,
         keep ? Real(1) : Real(0), panel);
  });
}

void Weights::backward(const ExecSpace& space, const Matrix& grad_out, const Matrix& grad_in) const {
  readPanels(space, [&](std::int64_t first, const Matrix& panel) {
    gemm(space, Op::none, Op::none, Real(1), columnsOf(grad_out, first, panel.extent(0)), panel,
         first > 0 ? Real(1) : Real(0), grad_in);
  });
}

LayerNumbers LayerTensors::next(std::int64_t size) {
  const LayerNumbers own = _numbers.part(_next, _next + size);
  _next += storedSize(size);
  return own;
}

Weights LayerTensors::weights(std::int64_t rows, std::int64_t columns) {
  const LayerNumbers own = next(rows * columns);
  return {own.parameters, own.gradients, rows, columns, own.scratch.data(), own.gradient_scratch.data()};
}

Weights LayerTensors::table(std::int64_t rows, std::int64_t columns) const {
  return {_numbers.table, _numbers.table_gradient, rows,
          columns,        _numbers.scratch.data(), _numbers.gradient_scratch.data()};
}

SmallTensor LayerTensors::small(std::int64_t size) {
  const LayerNumbers own = next(size);
  if (own.packed()) _back -= size; // otherwise there is no scratch
  return {own.parameters, own.gradients, own.scratch.data() + _back, own.gradient_scratch.data() + _back};
}

RealTensor LayerTensors::real(std::int64_t size) {
  const LayerNumbers own = next(size);
  return {own.realParameters(), own.realGradients()};
}

} // namespace partita
