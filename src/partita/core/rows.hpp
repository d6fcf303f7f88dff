#pragma once

#include "partita/core/loops.hpp"

/// Kernels that reduce and rewrite the rows of a matrix. A kernel is written once, with the operations of a
/// `row`: on a host back end one thread has a row, and on a device a team, whose threads access neighbouring
/// values together, unless rows are very short. Sums have the same bits in each run: their order depends on
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
  /// The same from first to last.
  template <class Value>
  KOKKOS_INLINE_FUNCTION auto sumInOrder(std::int64_t count, const Value& value) const {
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

namespace detail {

/// The largest value of a reduction, and of equal ones the first.
class FirstLargest {
 public:
  struct Found {
    Real value;
    std::int64_t place;
  };
  // NOLINTBEGIN(readability-identifier-naming): Kokkos asks for these names
  using reducer = FirstLargest;
  using value_type = Found;
  // NOLINTEND(readability-identifier-naming)
  using result_view_type = Kokkos::View<Found, HostSpace, Kokkos::MemoryUnmanaged>;

  KOKKOS_INLINE_FUNCTION explicit FirstLargest(Found& found) : _found(found) {}
  KOKKOS_INLINE_FUNCTION void init(Found& found) const {
    found = {Kokkos::reduction_identity<Real>::max(), Kokkos::reduction_identity<std::int64_t>::min()};
  }
  KOKKOS_INLINE_FUNCTION void join(Found& into, const Found& other) const {
    if (other.value > into.value || (other.value == into.value && other.place < into.place)) into = other;
  }
  KOKKOS_INLINE_FUNCTION Found& reference() const { return _found; }
  KOKKOS_INLINE_FUNCTION result_view_type view() const { return result_view_type(&_found); }

 private:
  Found& _found;
};

} // namespace detail

/// The operations of a row that a team computes. All threads of the team call them together and get the same
/// results; after `each` and `once` every thread sees what they have written. Sums have a fixed order, which
/// is a tree.
struct RowOfTeam {
  static constexpr bool recomputes = true;
  const Team::member_type& member;

  template <class Value>
  KOKKOS_INLINE_FUNCTION auto sum(std::int64_t count, const Value& value) const {
    return sumInOrder(count, value);
  }
  template <class Value>
  KOKKOS_INLINE_FUNCTION auto sumInOrder(std::int64_t count, const Value& value) const {
    using Number = decltype(value(std::int64_t{0}));
    Number total = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(member, count), [&](std::int64_t i, Number& own) { own += value(i); }, total);
    return total;
  }
  template <class Value>
  KOKKOS_INLINE_FUNCTION std::int64_t placeOfLargest(std::int64_t count, const Value& value) const {
    detail::FirstLargest::Found found;
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(member, count),
        [&](std::int64_t i, detail::FirstLargest::Found& own) {
          if (const Real here = value(i); here > own.value) own = {here, i};
        },
        detail::FirstLargest(found));
    return found.place < count ? found.place : 0; // none is found if all are NaN or -infinity
  }
  template <class Body>
  KOKKOS_INLINE_FUNCTION void each(std::int64_t count, const Body& body) const {
    Kokkos::parallel_for(Kokkos::TeamVectorRange(member, count), body);
    member.team_barrier();
  }
  template <class Body>
  KOKKOS_INLINE_FUNCTION void once(const Body& body) const {
    Kokkos::single(Kokkos::PerTeam(member), body);
    member.team_barrier();
  }
};

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
    body(static_cast<std::int64_t>(member.league_rank()), RowOfTeam{member});
  }
};

/// Rows so short that a thread has one also on a device.
constexpr std::int64_t short_row = 8;

/// One warp for short rows, which need no barrier, and eight for long ones.
inline Team rowTeams(const ExecSpace& space, std::int64_t rows, std::int64_t width) {
  const int teams = static_cast<int>(rows);
  if constexpr (device_is_host) return Team(space, teams, 1);
  return Team(space, teams, width > 2048 ? 8 : 1, 32);
}

} // namespace detail

/// Calls body(i, row) for the rows i < rows, of about `width` values each; `row` is a RowOfThread or a
/// RowOfTeam.
template <class Body>
void forEachRow(const ExecSpace& space, const char* label, std::int64_t rows, std::int64_t width,
                const Body& body) {
  if constexpr (row_teams) {
    if (width > detail::short_row) {
      Kokkos::parallel_for(label, detail::rowTeams(space, rows, width), detail::TeamRows<Body>{body});
      return;
    }
  }
  Kokkos::parallel_for(label, Range(space, 0, rows), detail::ThreadRows<Body>{body});
}

} // namespace partita
