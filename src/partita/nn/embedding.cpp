#include "partita/nn/embedding.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/random.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/initialise.hpp"

namespace partita {

namespace {

/// A row of the table; an invalid token must not lead to a read outside it.
KOKKOS_INLINE_FUNCTION std::int64_t rowOf(Real token, std::int64_t tokens) {
  const auto row = static_cast<std::int64_t>(token);
  return row < 0 ? 0 : row < tokens ? row : tokens - 1;
}

template <class Stored>
struct LookUp {
  const Real* in;
  const Stored *table, *positions; // positions may be null
  Real* out;
  std::int64_t tokens, width, length;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t place, std::int64_t j) const {
    const Real position = positions != nullptr ? toReal(positions[place % length * width + j]) : Real(0);
    out[place * width + j] = toReal(table[rowOf(in[place], tokens) * width + j]) + position;
  }
};

/// Adds the gradient of each place to the row of its token, for a panel of the table's rows. A work item owns
/// some columns and visits the places in order, so that the order of summation does not depend on the number
/// of threads.
struct ScatterAdd {
  static constexpr std::int64_t columns_per_item = device_is_host ? 64 : 1;
  const Real *in, *grad;
  Real* panel;
  std::int64_t tokens, width, places, first_row, rows;
  bool keep;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t first = item * columns_per_item, left = width - first,
                       count = left < columns_per_item ? left : columns_per_item;
    if (!keep) {
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t j = 0; j < count; ++j) panel[row * width + first + j] = 0;
    }
    for (std::int64_t place = 0; place < places; ++place) {
      const std::int64_t row = rowOf(in[place], tokens) - first_row;
      if (row < 0 || row >= rows) continue;
      Real* to = panel + row * width + first;
      const Real* from = grad + place * width + first;
      PARTITA_INDEPENDENT
      for (std::int64_t j = 0; j < count; ++j) to[j] += from[j];
    }
  }
};

/// Column `column` of row `row` of [samples, positions x width].
struct Element {
  const Real* values;
  std::int64_t columns;
  KOKKOS_INLINE_FUNCTION Real operator()(std::int64_t row, std::int64_t column) const {
    return values[row * columns + column];
  }
};

} // namespace

Embedding::Embedding(const LayerPlan& plan)
    : PlannedLayer(plan), _tokens(plan.classes), _width(plan.spec.embedding.width) {}

void Embedding::bind(const LayerNumbers& numbers) {
  LayerTensors tensors(numbers);
  _table = tensors.weights(_tokens, _width);
  if (_plan.spec.embedding.positions) _positions = tensors.small(_plan.in[0] * _width);
}

void Embedding::initialise(std::uint64_t seed, const std::string& tensor, const TensorSlice& slice,
                           Real* values) const {
  const std::int64_t first =
      tensor == "weight" ? 0 : _tokens * _width; // the numbers of one table, then those of the other
  fillNormal(0.02, RandomStream(seed, Stream::initialisation, static_cast<std::uint32_t>(_plan.number)),
             first, slice, values);
}

void Embedding::forward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix& out,
                        const Matrix&) {
  const Region region(space, "partita::Embedding::forward", Phase::elementwise);
  const std::int64_t places = in.size(), length = in.extent(1);
  withStored(_table.stored().precision, [&](auto stored) {
    using Stored = decltype(stored);
    forEachElement(space, "partita::Embedding::forward_kernel", places, _width,
                   LookUp<Stored>{in.data(), static_cast<const Stored*>(_table.stored().data),
                                  static_cast<const Stored*>(_positions.stored().data), out.data(), _tokens,
                                  _width, length});
  });
}

void Embedding::backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix&,
                         const Matrix&, const Matrix& grad_out, const Matrix& grad_in) {
  const Region region(space, "partita::Embedding::backward", Phase::elementwise);
  const std::int64_t items = (_width + ScatterAdd::columns_per_item - 1) / ScatterAdd::columns_per_item;
  const std::int64_t places = in.size();
  const bool keep = pass.accumulate || _plan.shared; // a later tied layer has left its part there
  _table.changeGradient(space, keep, [&](std::int64_t first, const Matrix& panel) {
    Kokkos::parallel_for("partita::Embedding::backward_kernel", Range(space, 0, items),
                         ScatterAdd{in.data(), grad_out.data(), panel.data(), _tokens, _width, places, first,
                                    static_cast<std::int64_t>(panel.extent(0)), keep});
  });
  if (_plan.spec.embedding.positions) {
    const std::int64_t columns = grad_out.extent(1);
    const Vector gradient = _positions.gradient(space, pass.accumulate);
    if (!pass.accumulate)
      Kokkos::deep_copy(space, gradient, Real(0)); // for positions beyond shorter sequences
    sumColumns(space, "partita::Embedding::position_gradient", grad_out.extent(0), columns,
               Element{grad_out.data(), columns}, gradient.data(), true);
    _positions.storeGradient(space);
  }
  if (grad_in.size() > 0) Kokkos::deep_copy(space, grad_in, Real(0));
}

} // namespace partita
