#include "partita/nn/embedding.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/random.hpp"
#include "partita/core/region.hpp"

namespace partita {

namespace {

/// A row of the table; what is no token must not lead out of it.
KOKKOS_INLINE_FUNCTION std::int64_t rowOf(Real token, std::int64_t tokens) {
  const auto row = static_cast<std::int64_t>(token);
  return row < 0 ? 0 : row < tokens ? row : tokens - 1;
}

struct LookUp {
  const Real *in, *table, *positions; // positions: or null
  Real* out;
  std::int64_t tokens, width, length;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t place, std::int64_t j) const {
    const Real position = positions != nullptr ? positions[place % length * width + j] : Real(0);
    out[place * width + j] = table[rowOf(in[place], tokens) * width + j] + position;
  }
};

/// Adds the gradient of each place to the row of its token. A work item owns some columns of the table and
/// goes through the places in order, so that sums have one order whatever the number of threads.
struct ScatterAdd {
  static constexpr std::int64_t columns_an_item = device_is_host ? 64 : 1;
  const Real *in, *grad;
  Real* table;
  std::int64_t tokens, width, places;
  bool accumulate;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t first = item * columns_an_item, left = width - first,
                       count = left < columns_an_item ? left : columns_an_item;
    if (!accumulate) {
      for (std::int64_t token = 0; token < tokens; ++token)
        for (std::int64_t j = 0; j < count; ++j) table[token * width + first + j] = 0;
    }
    for (std::int64_t place = 0; place < places; ++place) {
      Real* row = table + rowOf(in[place], tokens) * width + first;
      const Real* from = grad + place * width + first;
      PARTITA_INDEPENDENT
      for (std::int64_t j = 0; j < count; ++j) row[j] += from[j];
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
    : PlannedLayer(plan), _tokens(plan.classes), _width(plan.spec.width) {}

void Embedding::bind(const Vector& parameters, const Vector& gradients) {
  const std::int64_t table = _tokens * _width;
  _table = Matrix(parameters.data(), _tokens, _width);
  _table_gradient = Matrix(gradients.data(), _tokens, _width);
  if (!_plan.spec.positions) return;
  _positions = Matrix(parameters.data() + table, _plan.in[0], _width);
  _position_gradient = Matrix(gradients.data() + table, _plan.in[0], _width);
}

void Embedding::initialise(std::uint64_t seed, Real* values) const {
  const RandomStream random(seed, Stream::initialisation, static_cast<std::uint32_t>(_plan.number));
  const std::int64_t size = _plan.parameters();
  for (std::int64_t i = 0; i < size; ++i)
    values[i] = static_cast<Real>(0.02 * random.normal(static_cast<std::uint64_t>(i)));
}

void Embedding::forward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix& out,
                        const Matrix&) {
  const Region region(space, "partita::Embedding::forward", Phase::elementwise);
  forEachElement(space, "partita::Embedding::forward_kernel", static_cast<std::int64_t>(in.size()), _width,
                 LookUp{in.data(), _table.data(), _positions.data(), out.data(), _tokens, _width,
                        static_cast<std::int64_t>(in.extent(1))});
}

void Embedding::backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix&,
                         const Matrix&, const Matrix& grad_out, const Matrix& grad_in) {
  const Region region(space, "partita::Embedding::backward", Phase::elementwise);
  const std::int64_t items = (_width + ScatterAdd::columns_an_item - 1) / ScatterAdd::columns_an_item;
  // A tied layer behind has left its part of the table's gradient there.
  Kokkos::parallel_for("partita::Embedding::backward_kernel", Range(space, 0, items),
                       ScatterAdd{in.data(), grad_out.data(), _table_gradient.data(), _tokens, _width,
                                  static_cast<std::int64_t>(in.size()), pass.accumulate || _plan.shared});
  if (_plan.spec.positions) {
    const auto columns = static_cast<std::int64_t>(grad_out.extent(1));
    if (!pass.accumulate) Kokkos::deep_copy(space, _position_gradient, Real(0)); // of places that are not met
    sumColumns(space, "partita::Embedding::position_gradient", static_cast<std::int64_t>(grad_out.extent(0)),
               columns, Element{grad_out.data(), columns}, _position_gradient.data(), true);
  }
  if (grad_in.size() > 0) Kokkos::deep_copy(space, grad_in, Real(0));
}

} // namespace partita
