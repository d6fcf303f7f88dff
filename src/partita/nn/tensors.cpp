#include "partita/nn/tensors.hpp"

#include "partita/core/packs.hpp"

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

template <class From, class Half>
struct RoundColumns {
  const From* from;
  Half* to;
  std::int64_t from_stride, to_stride;
  bool aligned() const {
    return alignedForPacks(from, to) && from_stride % values_per_pack == 0 &&
           to_stride % values_per_pack == 0;
  }

  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t row, std::int64_t column) const {
    P::store(to + row * to_stride + column, P::load(from + row * from_stride + column));
  }
};

/// A matrix of `Real`, rounded, or one of the same 16-bit numbers.
void roundColumns(const ExecSpace& space, const TypedMatrix& from, const TypedMatrix& to) {
  withStored(from.precision, [&](auto given) {
    withStored(to.precision, [&](auto stored) {
      using From = decltype(given);
      using Half = decltype(stored);
      const RoundColumns<From, Half> body{from.as<From>(), to.as<Half>(), from.stride, to.stride};
      forEachPack(space, "partita::Weights::round_columns", to.rows, to.columns, body.aligned(), body);
    });
  });
}

/// Rows of an operand as `Real`: themselves, or converted.
Matrix rowsAsReal(const ExecSpace& space, const TypedMatrix& values, std::int64_t first, std::int64_t count,
                  Real* room) {
  const TypedMatrix rows = values.rowsFrom(first, count);
  if (!rows.half()) return rows.real();
  const Matrix copy(room, count, values.columns);
  convert(space, rows.values(), copy);
  return copy;
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

ProductEpilogue SmallTensor::asBias(const ExecSpace& space, Precision of_result, bool relu) const {
  const bool alike = of_result == _values.precision, as_stored = alike && takesStoredBias(of_result);
  return {as_stored ? nullptr : values(space).data(), relu, alike ? _values.data : nullptr};
}

Vector SmallTensor::gradient(const ExecSpace& space, bool keep) const {
  if (_gradient.precision != Precision::single && keep) convert(space, _gradient, _real_gradient);
  return asVector(_real_gradient);
}

void SmallTensor::storeGradient(const ExecSpace& space) const {
  if (_gradient.precision != Precision::single) convert(space, _real_gradient, _gradient);
}

Weights::Weights(const TypedSpan& values, const TypedSpan& gradient, std::int64_t rows, std::int64_t columns,
                 Real* scratch, Real* gradient_scratch, std::int64_t padding)
    : _values(values), _gradient(gradient), _rows(rows), _columns(columns), _padding(padding),
      _scratch(scratch), _gradient_scratch(gradient_scratch) {}

template <class Body>
void Weights::readPanels(const ExecSpace& space, const Body& body) const {
  eachPanel(_values, _scratch, [&](std::int64_t first, const TypedSpan& stored, const Matrix& panel) {
    if (stored.data != panel.data()) convert(space, stored, panel);
    body(first, panel);
  });
}

bool Weights::direct() const {
  return _values.precision != Precision::single && multipliesDirectly(_values.precision);
}

TypedMatrix Weights::rowsOf(const TypedSpan& numbers, std::int64_t first, std::int64_t count) const {
  return {numbers.part(first * _columns, (first + count) * _columns), count, _columns};
}

/// May products read these numbers where they lie? Weights cannot be moved, so another operand
/// whose rows are as long as theirs need not be moved either.
bool Weights::fits(const TypedMatrix& values) const {
  return values.half() && (values.stride % _padding == 0 || values.columns == _columns);
}

TypedMatrix Weights::paddedIn(Real* room, std::int64_t rows, std::int64_t columns) const {
  TypedMatrix padded(_values.precision, room, rows, columns);
  padded.stride = paddedWidth(columns, _padding);
  return padded;
}

/// body(first, part) for some columns of an operand at a time, in the type in which these numbers are stored.
/// With `there`, an earlier call has left them in `room` if they fit there as a whole.
template <class Body>
void Weights::eachRoundedPart(const ExecSpace& space, const TypedMatrix& values, Real* room, bool there,
                              const Body& body) const {
  if (fits(values)) return body(std::int64_t{0}, values);
  const std::int64_t rows = values.rows, columns = values.columns,
                     at_once = halfColumns(rows, paddedWidth(columns, _padding));
  for (std::int64_t first = 0; first < columns; first += at_once) {
    const std::int64_t count = std::min(at_once, columns - first);
    const TypedMatrix part = paddedIn(room, rows, count);
    if (!there || at_once < columns) roundColumns(space, values.columnsFrom(first, count), part);
    body(first, part);
  }
}

/// The same for some rows at a time.
template <class Body>
void Weights::eachRoundedRows(const ExecSpace& space, const TypedMatrix& values, Real* room, bool there,
                              const Body& body) const {
  if (fits(values)) return body(std::int64_t{0}, values);
  const std::int64_t rows = values.rows, columns = values.columns, width = paddedWidth(columns, _padding),
                     at_once = std::max(std::int64_t{1}, rows * halfColumns(rows, width) / width);
  eachRows(rows, at_once, [&](std::int64_t first, std::int64_t count) {
    const TypedMatrix part = paddedIn(room, count, columns);
    if (!there || at_once < rows) roundColumns(space, values.rowsFrom(first, count), part);
    body(first, part);
  });
}

/// Rows of two operands that are converted to `Real` at once if one of them is 16-bit.
std::int64_t Weights::rowsAtOnce(const TypedMatrix& a, const TypedMatrix& b) const {
  return std::max(std::int64_t{1}, a.half() || b.half() ? rowsInReal(a.rows, _columns, _rows) : a.rows);
}

void Weights::forward(const ExecSpace& space, const TypedMatrix& in, const TypedMatrix& out,
                      const ProductEpilogue& epilogue) const {
  if (direct())
    return eachRoundedRows(space, in, _scratch, false, [&](std::int64_t first, const TypedMatrix& part) {
      gemm(space, Op::none, Op::transpose, Real(1), part, rowsOf(_values, 0, _rows), Real(0),
           out.rowsFrom(first, part.rows), epilogue);
    });
  const std::int64_t at_once = rowsAtOnce(in, out);
  for (std::int64_t row = 0; row == 0 || row < in.rows; row += at_once) {
    const std::int64_t count = std::min(at_once, in.rows - row);
    const TypedMatrix wanted = out.rowsFrom(row, count);
    const Matrix from = rowsAsReal(space, in, row, count, _gradient_scratch),
                 to = out.half() ? Matrix(_gradient_scratch + count * _columns, count, _rows) : wanted.real();
    readPanels(space, [&](std::int64_t first, const Matrix& panel) {
      const ProductEpilogue own{epilogue.bias != nullptr ? epilogue.bias + first : nullptr, epilogue.relu};
      gemm(space, Op::none, Op::transpose, Real(1), from, panel, Real(0),
           TypedMatrix(to).columnsFrom(first, panel.extent(0)), own);
    });
    if (out.half()) copyValues(space, to, wanted);
  }
}

void Weights::addGradient(const ExecSpace& space, bool keep, const TypedMatrix& in,
                          const TypedMatrix& grad_out, const TypedSpan& sums) const {
  const Real kept = keep ? Real(1) : Real(0);
  if (direct())
    return eachRoundedPart(space, in, _scratch, false, [&](std::int64_t column, const TypedMatrix& inputs) {
      const auto multiply = [&](std::int64_t row, const TypedMatrix& part) {
        const bool summed = sums.size == 0 || column > 0;
        gemm(space, Op::transpose, Op::none, Real(1), part, inputs, kept,
             rowsOf(_gradient, row, part.columns).columnsFrom(column, inputs.columns),
             {nullptr, false, nullptr, summed ? TypedSpan{} : sums.part(row, row + part.columns)});
      };
      eachRoundedPart(space, grad_out, _gradient_scratch, column > 0, multiply);
    });
  const std::int64_t at_once = rowsAtOnce(in, grad_out);
  const bool in_parts = at_once < in.rows;
  if (sums.size > 0 && in_parts) columnSums(space, grad_out, sums);
  changeGradient(space, keep, [&](std::int64_t first, const Matrix& panel) {
    for (std::int64_t row = 0; row == 0 || row < in.rows; row += at_once) {
      const std::int64_t count = std::min(at_once, in.rows - row);
      const Matrix from = rowsAsReal(space, in, row, count, _scratch),
                   grad = rowsAsReal(space, grad_out, row, count, _scratch + count * _columns);
      const auto end = first + static_cast<std::int64_t>(panel.extent(0));
      gemm(space, Op::transpose, Op::none, Real(1), TypedMatrix(grad).columnsFrom(first, end - first), from,
           row > 0 ? Real(1) : kept, panel,
           {nullptr, false, nullptr, sums.size == 0 || in_parts ? TypedSpan{} : sums.part(first, end)});
    }
  });
}

void Weights::inputGradient(const ExecSpace& space, const TypedMatrix& grad_out, const TypedMatrix& grad_in,
                            bool follows) const {
  if (grad_in.size() == 0) return;
  if (direct())
    return eachRoundedRows(space, grad_out, _gradient_scratch, follows,
                           [&](std::int64_t first, const TypedMatrix& part) {
                             gemm(space, Op::none, Op::none, Real(1), part, rowsOf(_values, 0, _rows),
                                  Real(0), grad_in.rowsFrom(first, part.rows));
                           });
  const std::int64_t at_once = rowsAtOnce(grad_out, grad_in);
  for (std::int64_t row = 0; row == 0 || row < grad_out.rows; row += at_once) {
    const std::int64_t count = std::min(at_once, grad_out.rows - row);
    const TypedMatrix wanted = grad_in.rowsFrom(row, count);
    const Matrix grad = rowsAsReal(space, grad_out, row, count, _gradient_scratch),
                 to = grad_in.half() ? Matrix(_gradient_scratch + count * _rows, count, _columns)
                                     : wanted.real();
    readPanels(space, [&](std::int64_t first, const Matrix& panel) {
      gemm(space, Op::none, Op::none, Real(1), TypedMatrix(grad).columnsFrom(first, panel.extent(0)), panel,
           first > 0 ? Real(1) : Real(0), to);
    });
    if (grad_in.half()) copyValues(space, to, wanted);
  }
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

StoredTensor LayerTensors::stored(std::int64_t size) {
  const LayerNumbers own = next(size);
  return {own.parameters, own.gradients};
}

RealTensor LayerTensors::real(std::int64_t size) {
  const LayerNumbers own = next(size);
  return {own.realParameters(), own.realGradients()};
}

} // namespace partita
