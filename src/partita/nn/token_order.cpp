#include "partita/nn/token_order.hpp"

#include "partita/core/loops.hpp"

#include <utility>

namespace partita {

namespace {

constexpr int digit_bits = 8;
constexpr std::int64_t digits = sort_digits;
static_assert(digits == 1 << digit_bits, "the scratch is for other digits");

/// One digit of the rows of places in the order so far.
struct Digits {
  const std::int32_t* rows;
  std::int64_t places;
  int shift;

  KOKKOS_INLINE_FUNCTION std::int64_t at(std::int64_t i) const { return rows[i] >> shift & (digits - 1); }
  KOKKOS_INLINE_FUNCTION std::int64_t end(std::int64_t block) const {
    const std::int64_t next = (block + 1) * sort_block;
    return next < places ? next : places;
  }
};

struct StartOrder {
  const Real* tokens;
  TableRows table;
  std::int32_t *order, *rows;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    order[i] = static_cast<std::int32_t>(i);
    rows[i] = static_cast<std::int32_t>(table.of(tokens[i]) + table.begin); // not negative
  }
};

/// counts[digit][block]: how often a block of places has a digit. All threads of a block read the same
/// values.
struct CountDigits {
  Digits keys;
  std::int64_t blocks;
  std::int32_t* counts;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t block, std::int64_t digit) const {
    std::int32_t count = 0;
    for (std::int64_t i = block * sort_block; i < keys.end(block); ++i) count += keys.at(i) == digit ? 1 : 0;
    counts[digit * blocks + block] = count;
  }
};

/// Where the first place of each digit and block goes.
struct SumBefore {
  using value_type = std::int32_t; // NOLINT(readability-identifier-naming): Kokkos asks for this name
  std::int32_t* counts;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int32_t& sum, bool last) const {
    const std::int32_t own = counts[i];
    if (last) counts[i] = sum;
    sum += own;
  }
};

struct MoveByDigit {
  Digits keys;
  std::int64_t blocks;
  const std::int32_t *begins, *order;
  std::int32_t *new_order, *new_rows;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t block, std::int64_t digit) const {
    std::int32_t to = begins[digit * blocks + block];
    for (std::int64_t i = block * sort_block; i < keys.end(block); ++i) {
      if (keys.at(i) != digit) continue;
      new_order[to] = order[i];
      new_rows[to] = keys.rows[i];
      ++to;
    }
  }
};

struct CountFrom {
  std::int32_t* rows;
  std::int32_t first;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { rows[i] -= first; }
};

} // namespace

TokenOrder orderByToken(const ExecSpace& space, const Real* tokens, std::int64_t places,
                        const TableRows& table, const Vector& work) {
  const std::int64_t blocks = (places + sort_block - 1) / sort_block;
  std::int32_t *order = reinterpret_cast<std::int32_t*>(work.data()), *rows = order + places,
               *other_order = rows + places, *other_rows = other_order + places,
               *counts = other_rows + places;
  forEachValue(space, "partita::orderByToken::start", places, StartOrder{tokens, table, order, rows});
  for (int shift = 0; (table.all - 1) >> shift > 0; shift += digit_bits) {
    const Digits keys{rows, places, shift};
    forEachElement(space, "partita::orderByToken::count", blocks, digits, CountDigits{keys, blocks, counts});
    Kokkos::parallel_scan("partita::orderByToken::sum", Range(space, 0, digits * blocks), SumBefore{counts});
    forEachElement(space, "partita::orderByToken::move", blocks, digits,
                   MoveByDigit{keys, blocks, counts, order, other_order, other_rows});
    std::swap(order, other_order);
    std::swap(rows, other_rows);
  }
  forEachValue(space, "partita::orderByToken::count_from", places,
               CountFrom{rows, static_cast<std::int32_t>(table.begin)});
  return {order, rows, places};
}

} // namespace partita
