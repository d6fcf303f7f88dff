#pragma once

#include "partita/core/packed_row.hpp"
#include "partita/core/row_reducers.hpp"

#include <algorithm>

/// Kernels that reduce and rewrite the rows of a matrix. A kernel is written once, with the operations of a
/// `row`: on a host back end one thread has a row, and on a device a warp, or a team if rows are long, whose
/// threads access neighbouring values together. Sums have the same bits in each run: their order depends on
/// the size of the row and of the team alone.
namespace partita {

/// The operations of a row that one thread computes.
struct RowOfThread {
  /// Is it faster to compute a value twice than to keep it in memory?
  static constexpr bool recomputes = false;

  /// value(0) + ... + value(count - 1) in partial sums, in the type of the values.
  template <class Value>
  KOKKOS_INLINE_FUNCTION auto sum(std::int64_t count, const Value& value) const {
    return laneSum(count, value);
  }
  /// The same for values that are not neighbours: one thread adds them from first to last, several in a tree.
  template <class Value>
  KOKKOS_INLINE_FUNCTION auto sumStrided(std::int64_t count, const Value& value) const {
    decltype(value(std::int64_t{0})) total = 0;
    for (std::int64_t i = 0; i < count; ++i) total += value(i);
    return total;
  }
  /// The first index with the largest value.
  template <class Value>
  KOKKOS_INLINE_FUNCTION std::int64_t placeOfLargest(std::int64_t count, const Value& value) const {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < count; ++i) best = value(i) > value(best) ? i : best;
    return best;
  }
  template <class Stored>
  KOKKOS_INLINE_FUNCTION std::int64_t placeOfLargest(const Stored* values, std::int64_t count) const {
    return placeOfLargest(count, [=](std::int64_t i) { return toReal(values[i]); });
  }
  /// function(values[0], 0) + ... in partial sums, in the type of the function.
  template <class Stored, class Function>
  KOKKOS_INLINE_FUNCTION auto sumOf(const Stored* values, std::int64_t count,
                                    const Function& function) const {
    return laneSum(count, [=](std::int64_t i) { return function(toReal(values[i]), i); });
  }
  /// to[i] = function(from[i], i), where `to` may be `from`.
  template <class Stored, class Function>
  KOKKOS_INLINE_FUNCTION void map(const Stored* from, Stored* to, std::int64_t count,
                                  const Function& function) const {
    PARTITA_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i) to[i] = fromReal<Stored>(function(toReal(from[i]), i));
  }
  /// Calls body(i) for every i < count; values must be independent.
  template <class Body>
  KOKKOS_INLINE_FUNCTION void each(std::int64_t count, const Body& body) const {
    PARTITA_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i) body(i);
  }
  /// Calls body(), once per row.
  template <class Body>
  KOKKOS_INLINE_FUNCTION void once(const Body& body) const {
    body();
  }
};

/// All threads of a team.
struct WholeTeam {
  const Team::member_type& member;

  KOKKOS_INLINE_FUNCTION auto range(std::int64_t count) const {
    return Kokkos::TeamVectorRange(member, count);
  }
  KOKKOS_INLINE_FUNCTION auto one() const { return Kokkos::PerTeam(member); }
  KOKKOS_INLINE_FUNCTION void wait() const { member.team_barrier(); }
};

/// A thread of a team with its vector lanes: on devices a warp.
struct Warp {
  const Team::member_type& member;

  KOKKOS_INLINE_FUNCTION auto range(std::int64_t count) const {
    return Kokkos::ThreadVectorRange(member, count);
  }
  KOKKOS_INLINE_FUNCTION auto one() const { return Kokkos::PerThread(member); }
  /// Lanes may drift apart; on NVIDIA devices `single` ends with a barrier for them.
  KOKKOS_INLINE_FUNCTION void wait() const {
    Kokkos::single(Kokkos::PerThread(member), []() {});
  }
};

/// The operations of a row that several threads compute. All of them call these together and get the same
/// results; after `each`, `map` and `once` every thread sees what they have written. `each` and `map` may
/// overwrite what was reduced before them. Sums have a fixed order, which is a tree.
template <class Threads>
struct SharedRow {
  static constexpr bool recomputes = true;
  Threads threads;

  template <class Value>
  KOKKOS_INLINE_FUNCTION auto sum(std::int64_t count, const Value& value) const {
    return sumStrided(count, value);
  }
  template <class Value>
  KOKKOS_INLINE_FUNCTION auto sumStrided(std::int64_t count, const Value& value) const {
    using Number = decltype(value(std::int64_t{0}));
    Number total = 0;
    Kokkos::parallel_reduce(
        threads.range(count), [&](std::int64_t i, Number& own) { own += value(i); }, total);
    return total;
  }
  template <class Value>
  KOKKOS_INLINE_FUNCTION std::int64_t placeOfLargest(std::int64_t count, const Value& value) const {
    using Found = detail::FirstLargest::Found;
    return firstLargest(count, count, [&](std::int64_t i, Found& own) {
      if (const Real here = value(i); here > own.value) own = {here, i};
    });
  }
  template <class Stored>
  KOKKOS_INLINE_FUNCTION std::int64_t placeOfLargest(const Stored* values, std::int64_t count) const {
    using Found = detail::FirstLargest::Found;
    const detail::PackedRow<Stored> row(values, count, alignedForPacks(values));
    return firstLargest(count, row.items(), [&](std::int64_t item, Found& own) {
      row.visit(item, [&](Real value, std::int64_t place) {
        if (value > own.value) own = {value, place};
      });
    });
  }
  /// The largest value (of equal ones the first) and the sum of exp(value - largest); reads the values once.
  template <class Stored>
  KOKKOS_INLINE_FUNCTION detail::OnlineSoftmax::Found softmaxOf(const Stored* values,
                                                                std::int64_t count) const {
    using Softmax = detail::OnlineSoftmax;
    const detail::PackedRow<Stored> row(values, count);
    Softmax::Found found;
    Kokkos::parallel_reduce(
        threads.range(row.items()),
        [&](std::int64_t item, Softmax::Found& own) {
          row.visitPack(item, [&](auto pack, const auto& values, std::int64_t first) {
            Softmax::add<decltype(pack)>(own, values, first);
          });
        },
        Softmax(found));
    if (found.place < count) return found;
    const Real first = toReal(values[0]); // all are NaN or -infinity
    return {first, 0, sumOf(values, count, [=](Real value, std::int64_t) { return rowExp(value - first); })};
  }
  template <class Stored, class Function>
  KOKKOS_INLINE_FUNCTION auto sumOf(const Stored* values, std::int64_t count,
                                    const Function& function) const {
    using Number = decltype(function(Real(0), std::int64_t{0}));
    const detail::PackedRow<Stored> row(values, count);
    Number total = 0;
    Kokkos::parallel_reduce(
        threads.range(row.items()),
        [&](std::int64_t item, Number& own) {
          row.visit(item, [&](Real value, std::int64_t place) { own += function(value, place); });
        },
        total);
    return total;
  }
  template <class Stored, class Function>
  KOKKOS_INLINE_FUNCTION void map(const Stored* from, Stored* to, std::int64_t count,
                                  const Function& function) const {
    const detail::PackedRow<Stored> row(from, count, alignedForPacks(from, to));
    threads.wait(); // others may still read what is overwritten now
    Kokkos::parallel_for(threads.range(row.items()), [&](std::int64_t item) { row.map(item, to, function); });
    threads.wait();
  }
  template <class Body>
  KOKKOS_INLINE_FUNCTION void each(std::int64_t count, const Body& body) const {
    threads.wait(); // others may still read what is overwritten now
    Kokkos::parallel_for(threads.range(count), body);
    threads.wait();
  }
  template <class Body>
  KOKKOS_INLINE_FUNCTION void once(const Body& body) const {
    Kokkos::single(threads.one(), body);
    threads.wait();
  }

 private:
  template <class Look>
  KOKKOS_INLINE_FUNCTION std::int64_t firstLargest(std::int64_t count, std::int64_t items,
                                                   const Look& look) const {
    detail::FirstLargest::Found found;
    Kokkos::parallel_reduce(threads.range(items), look, detail::FirstLargest(found));
    return found.place < count ? found.place : 0; // none is found if all are NaN or -infinity
  }
};

using RowOfTeam = SharedRow<WholeTeam>;
using RowOfWarp = SharedRow<Warp>;

namespace detail {

template <class Body>
struct ThreadRows {
  Body body;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row) const { body(row, RowOfThread{}); }
};

template <class Body>
struct TeamRows {
  Body body;
  KOKKOS_INLINE_FUNCTION void operator()(const Team::member_type& member) const {
    body(static_cast<std::int64_t>(member.league_rank()), RowOfTeam{{member}});
  }
};

template <class Body>
struct WarpRows {
  Body body;
  std::int64_t rows, rows_per_team;
  KOKKOS_INLINE_FUNCTION void operator()(const Team::member_type& member) const {
    const std::int64_t first = member.league_rank() * rows_per_team, left = rows - first;
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member, left < rows_per_team ? left : rows_per_team),
                         [&](std::int64_t i) { body(first + i, RowOfWarp{{member}}); });
  }
};

/// Longest rows that a single thread computes on a device too, and longest rows that a warp
/// computes.
constexpr std::int64_t thread_row = 8, warp_row = 2048;

inline Team rowTeams(const ExecSpace& space, std::int64_t rows) {
  return teamsOf<Team>(space, rows, 8, vector_lanes);
}

/// If there are many rows, blocks of several warps fill a device better than blocks of one warp.
inline std::int64_t rowsPerTeam(std::int64_t rows) {
  constexpr std::int64_t teams_wanted = 1024, most = 8;
  return std::max(std::int64_t{1}, std::min(most, rows / teams_wanted));
}

inline Team warpTeams(const ExecSpace& space, std::int64_t rows, std::int64_t rows_per_team) {
  return teamsOf<Team>(space, (rows + rows_per_team - 1) / rows_per_team, rows_per_team, vector_lanes);
}

} // namespace detail

/// Calls body(i, row) for the rows i < rows, of about `width` values each; `row` is a RowOfThread, a
/// RowOfWarp or a RowOfTeam.
template <class Body>
void forEachRow(const ExecSpace& space, const char* label, std::int64_t rows, std::int64_t width,
                const Body& body) {
  if constexpr (row_teams) {
    if (width > detail::warp_row) {
      Kokkos::parallel_for(label, detail::rowTeams(space, rows), detail::TeamRows<Body>{body});
      return;
    }
    if (width > detail::thread_row) {
      const std::int64_t rows_per_team = detail::rowsPerTeam(rows);
      Kokkos::parallel_for(label, detail::warpTeams(space, rows, rows_per_team),
                           detail::WarpRows<Body>{body, rows, rows_per_team});
      return;
    }
  }
  Kokkos::parallel_for(label, Range(space, 0, rows), detail::ThreadRows<Body>{body});
}

} // namespace partita
