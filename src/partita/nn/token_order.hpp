#pragma once

#include "partita/core/typed_span.hpp"
#include "partita/plan/scratch_budget.hpp"

namespace partita {

/// Rows [begin, begin + count) of a table of `all` rows.
struct TableRows {
  std::int64_t all, begin, count;

  /// The row of a token, counted from `begin`; an invalid token must not lead to a read outside the table.
  KOKKOS_INLINE_FUNCTION std::int64_t of(Real token) const {
    const auto row = static_cast<std::int64_t>(token);
    return (row < 0 ? 0 : row < all ? row : all - 1) - begin;
  }
  KOKKOS_INLINE_FUNCTION bool has(std::int64_t row) const { return row >= 0 && row < count; }
};

/// The places of a batch in the order of their tokens' rows; places with equal rows keep their order.
struct TokenOrder {
  const std::int32_t* places;
  const std::int32_t* rows; ///< of these places
  std::int64_t size;
};

/// Sorts places by the rows of their tokens, digit by digit, without atomics: the order is the same each
/// time. `work`: `sortScratch(places)` long; the result lies there.
TokenOrder orderByToken(const ExecSpace& space, const Real* tokens, std::int64_t places,
                        const TableRows& table, const Vector& work);

/// Adds the gradients of all places with the same token to its row of a panel of the table, which begins with
/// row `first_row`. An item is a sorted place and a column; that of the first place of a row adds up the
/// others, in the order in which `ScatterAdd` visits them. It knows where they end and reads several before
/// it adds them: otherwise a frequent token would wait for memory once per place.
template <class Stored>
struct AddSorted {
  static constexpr int read_ahead = 16;
  TokenOrder order;
  const Stored* grad;
  Real* panel;
  std::int64_t width, first_row, rows;

  KOKKOS_INLINE_FUNCTION bool has(std::int64_t i, std::int32_t row) const {
    return i < order.size && order.rows[i] == row;
  }

  /// The first sorted place after i that has another row; place i has this one.
  KOKKOS_INLINE_FUNCTION std::int64_t endOf(std::int64_t i, std::int32_t row) const {
    std::int64_t last = i, step = 1;
    for (; has(last + step, row); step *= 2) last += step;
    while (step > 1) {
      step /= 2;
      if (has(last + step, row)) last += step;
    }
    return last + 1;
  }

  /// Adds the values of `read_ahead` places from `first` on, or of those before `end`.
  template <bool Whole>
  KOKKOS_INLINE_FUNCTION Real addBlock(Real sum, std::int64_t first, std::int64_t end,
                                       std::int64_t column) const {
    Real values[read_ahead];
    for (int k = 0; k < read_ahead; ++k) {
      const bool has_place = Whole || first + k < end; // a test would delay the loads of a whole block
      values[k] = has_place ? toReal(grad[order.places[first + k] * width + column]) : Real(0);
    }
    for (const Real value : values) sum += value;
    return sum;
  }

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t column) const {
    const std::int32_t of_table = order.rows[i];
    const std::int64_t row = of_table - first_row;
    if (row < 0 || row >= rows || (i > 0 && order.rows[i - 1] == of_table)) return;
    Real* to = panel + row * width + column;
    Real sum = *to;
    const std::int64_t end = endOf(i, of_table);
    std::int64_t next = i;
    for (; next + read_ahead <= end; next += read_ahead) sum = addBlock<true>(sum, next, end, column);
    if (next < end) sum = addBlock<false>(sum, next, end, column);
    *to = sum;
  }
};

} // namespace partita
