#include "partita/nn/embedding.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/random.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/initialise.hpp"
#include "partita/nn/token_order.hpp"

namespace partita {

namespace {

TableRows tableRows(std::int64_t all, const IndexRange& own) {
  return {all, own.begin, own.size()};
}

template <class Number, class Stored>
struct LookUp {
  const Real* in;
  const Number *table, *positions;
  Stored* out;
  TableRows tokens, places;
  std::int64_t width, length;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t place, std::int64_t j) const {
    const std::int64_t row = tokens.of(in[place]), position = place % length - places.begin;
    const Real token_value = tokens.has(row) ? toReal(table[row * width + j]) : Real(0),
               place_value = places.has(position) ? toReal(positions[position * width + j]) : Real(0);
    out[place * width + j] = fromReal<Stored>(token_value + place_value);
  }
};

/// Adds the gradient of each place to the row of its token, for a panel of the table's rows. A work item owns
/// some columns and visits the places in order, so that the order of summation does not depend on the number
/// of threads.
template <class Stored>
struct ScatterAdd {
  const Real* in;
  const Stored* grad;
  Real* panel;
  TableRows tokens;
  std::int64_t width, columns_per_item, places, first_row, rows;
  bool keep;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t first = item * columns_per_item, left = width - first,
                       count = left < columns_per_item ? left : columns_per_item;
    if (!keep) {
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t j = 0; j < count; ++j) panel[row * width + first + j] = 0;
    }
    for (std::int64_t place = 0; place < places; ++place) {
      const std::int64_t row = tokens.of(in[place]) - first_row;
      if (row < 0 || row >= rows) continue;
      Real* to = panel + row * width + first;
      const Stored* from = grad + place * width + first;
      PARTITA_INDEPENDENT
      for (std::int64_t j = 0; j < count; ++j) to[j] += toReal(from[j]);
    }
  }
};

} // namespace

Embedding::Embedding(const LayerPlan& plan)
    : PlannedLayer(plan), _tokens(plan.ownRows("weight", plan.classes)),
      _places(plan.spec.embedding.positions ? plan.ownRows("position", plan.in[0]) : IndexRange()),
      _width(plan.spec.embedding.width) {}

void Embedding::bind(const LayerNumbers& numbers) {
  LayerTensors tensors(numbers);
  _table = tensors.weights(_tokens.size(), _width);
  if (_places.size() > 0) _positions = tensors.small(_places.size() * _width);
}

void Embedding::initialise(std::uint64_t seed, const std::string& tensor, const TensorSlice& slice,
                           Real* values) const {
  const std::int64_t first =
      tensor == "weight" ? 0 : _plan.classes * _width; // the numbers of one table, then those of the other
  fillNormal(0.02, RandomStream(seed, Stream::initialisation, static_cast<std::uint32_t>(_plan.number)),
             first, slice, values);
}

void Embedding::forward(const ExecSpace& space, const Pass&, const TypedMatrix& samples,
                        const TypedMatrix& out, const Matrix&) {
  const Region region(space, "partita::Embedding::forward", Phase::elementwise);
  const Matrix in = samples.real();
  const auto look_up = [&](auto number, auto stored) {
    using Number = decltype(number);
    using Stored = decltype(stored);
    const std::int64_t places = in.size(), length = in.extent(1);
    forEachElement(space, "partita::Embedding::forward_kernel", places, _width,
                   LookUp<Number, Stored>{in.data(), static_cast<const Number*>(_table.stored().data),
                                          static_cast<const Number*>(_positions.stored().data),
                                          out.as<Stored>(), tableRows(_plan.classes, _tokens),
                                          tableRows(length, _places), _width, length});
  };
  withStored(_table.stored().precision, [&](auto number) {
    if (out.half()) // then the table has the same type
      look_up(number, number);
    else
      look_up(number, Real{});
  });
}

template <class Stored>
void Embedding::addTokenGradients(const ExecSpace& space, const Pass& pass, const Matrix& in,
                                  const Stored* grad_out) const {
  const std::int64_t places = in.size();
  const TableRows tokens = tableRows(_plan.classes, _tokens);
  const bool keep = pass.accumulate || _plan.shared; // a later tied layer has left its part there
  if constexpr (row_teams) {
    const TokenOrder order = orderByToken(space, in.data(), places, tokens, pass.work);
    _table.changeGradient(space, keep, [&](std::int64_t first, const Matrix& panel) {
      if (!keep) Kokkos::deep_copy(space, panel, Real(0));
      forEachElement(space, "partita::Embedding::backward_kernel", places, _width,
                     AddSorted<Stored>{order, grad_out, panel.data(), _width, first,
                                       static_cast<std::int64_t>(panel.extent(0))});
    });
  } else {
    constexpr std::int64_t most_at_once = 64; // each item reads all tokens
    const std::int64_t at_once = columnsPerItem(space, _width, most_at_once),
                       items = (_width + at_once - 1) / at_once;
    _table.changeGradient(space, keep, [&](std::int64_t first, const Matrix& panel) {
      Kokkos::parallel_for("partita::Embedding::backward_kernel", Range(space, 0, items),
                           ScatterAdd<Stored>{in.data(), grad_out, panel.data(), tokens, _width, at_once,
                                              places, first, static_cast<std::int64_t>(panel.extent(0)),
                                              keep});
    });
  }
}

template <class Stored>
void Embedding::addPositionGradients(const ExecSpace& space, const Pass& pass, std::int64_t rows,
                                     std::int64_t row_values, const Stored* grad_out) const {
  const Vector gradient = _positions.gradient(space, pass.accumulate);
  sumColumns(space, "partita::Embedding::position_gradient", rows, _places.size() * _width,
             ValuesOf<Stored>{grad_out + _places.begin * _width, row_values}, gradient.data(),
             pass.accumulate);
  _positions.storeGradient(space);
}

void Embedding::backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix&,
                         const Matrix&, const TypedMatrix& grad_out, const TypedMatrix& grad_in) {
  const Region region(space, "partita::Embedding::backward", Phase::elementwise);
  withStored(grad_out.precision, [&](auto stored) {
    using Stored = decltype(stored);
    addTokenGradients(space, pass, in.real(), grad_out.as<const Stored>());
    if (_places.size() > 0)
      addPositionGradients(space, pass, grad_out.rows, grad_out.columns, grad_out.as<const Stored>());
  });
  if (grad_in.size() > 0) Kokkos::deep_copy(space, grad_in.real(), Real(0));
}

} // namespace partita
