#pragma once

#include "partita/core/math.hpp"
#include "partita/core/packs.hpp"

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

/// Largest value, its place and the sum of exp(value - largest), of values that come one by one or in parts
/// (Milakov and Gimelshein, arXiv 1805.02867).
class OnlineSoftmax {
 public:
  struct Found {
    Real largest;
    std::int64_t place;
    Real sum;
  };
  // NOLINTBEGIN(readability-identifier-naming): Kokkos asks for these names
  using reducer = OnlineSoftmax;
  using value_type = Found;
  // NOLINTEND(readability-identifier-naming)
  using result_view_type = Kokkos::View<Found, HostSpace, Kokkos::MemoryUnmanaged>;

  KOKKOS_INLINE_FUNCTION explicit OnlineSoftmax(Found& found) : _found(found) {}
  KOKKOS_INLINE_FUNCTION void init(Found& found) const {
    found = {Kokkos::reduction_identity<Real>::max(), Kokkos::reduction_identity<std::int64_t>::min(),
             Real(0)};
  }
  KOKKOS_INLINE_FUNCTION static void add(Found& found, Real value, std::int64_t place) {
    const Real above = value - found.largest, e = rowExp(above > 0 ? -above : above);
    if (above > 0)
      found = {value, place, found.sum * e + 1};
    else
      found.sum += e;
  }
  KOKKOS_INLINE_FUNCTION void join(Found& into, const Found& other) const {
    const bool takes =
        other.largest > into.largest || (other.largest == into.largest && other.place < into.place);
    const Found most = takes ? other : into, less = takes ? into : other;
    into = {most.largest, most.place, most.sum + less.sum * rowExp(less.largest - most.largest)};
  }
  KOKKOS_INLINE_FUNCTION Found& reference() const { return _found; }
  KOKKOS_INLINE_FUNCTION result_view_type view() const { return result_view_type(&_found); }

 private:
  Found& _found;
};

/// The sums of two numbers at once.
class SumOfTwo {
 public:
  // NOLINTBEGIN(readability-identifier-naming): Kokkos asks for these names
  using reducer = SumOfTwo;
  using value_type = TwoValues;
  // NOLINTEND(readability-identifier-naming)
  using result_view_type = Kokkos::View<TwoValues, HostSpace, Kokkos::MemoryUnmanaged>;

  KOKKOS_INLINE_FUNCTION explicit SumOfTwo(TwoValues& sums) : _sums(sums) {}
  KOKKOS_INLINE_FUNCTION void init(TwoValues& sums) const { sums = {Real(0), Real(0)}; }
  KOKKOS_INLINE_FUNCTION void join(TwoValues& into, const TwoValues& other) const {
    into.first += other.first;
    into.second += other.second;
  }
  KOKKOS_INLINE_FUNCTION TwoValues& reference() const { return _sums; }
  KOKKOS_INLINE_FUNCTION result_view_type view() const { return result_view_type(&_sums); }

 private:
  TwoValues& _sums;
};

/// A row as work for a team: packs of its values if they may be read in packs, then the values that are left.
template <class Stored>
class PackedRow {
 public:
  KOKKOS_INLINE_FUNCTION PackedRow(const Stored* values, std::int64_t count, bool aligned)
      : _values(values), _packs(aligned ? count / values_per_pack : 0),
        _items(count - _packs * (values_per_pack - 1)) {}

  KOKKOS_INLINE_FUNCTION std::int64_t items() const { return _items; }

  /// Calls body(value, its place) for the values of an item.
  template <class Body>
  KOKKOS_INLINE_FUNCTION void visit(std::int64_t item, const Body& body) const {
    if (item >= _packs) return body(toReal(_values[placeOf(item)]), placeOf(item));
    const auto pack = Pack<values_per_pack>::load(_values + placeOf(item));
    for (int k = 0; k < values_per_pack; ++k) body(pack.of[k], placeOf(item) + k);
  }
  /// to[place] = function(value, place) for the values of an item.
  template <class Function>
  KOKKOS_INLINE_FUNCTION void map(std::int64_t item, Stored* to, const Function& function) const {
    const std::int64_t first = placeOf(item);
    if (item >= _packs) {
      to[first] = fromReal<Stored>(function(toReal(_values[first]), first));
      return;
    }
    auto pack = Pack<values_per_pack>::load(_values + first);
    for (int k = 0; k < values_per_pack; ++k) pack.of[k] = function(pack.of[k], first + k);
    Pack<values_per_pack>::store(to + first, pack);
  }

 private:
  KOKKOS_INLINE_FUNCTION std::int64_t placeOf(std::int64_t item) const {
    return item < _packs ? item * values_per_pack : item + _packs * (values_per_pack - 1);
  }

  const Stored* _values;
  std::int64_t _packs, _items;
};

} // namespace detail

/// The operations of a row that a team computes. All threads of the team call them together and get the same
/// results; after `each`, `map` and `once` every thread sees what they have written. `each` and `map` may
/// overwrite what was reduced before them. Sums have a fixed order, which is a tree.
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
  /// The first largest value, and the sum of exp(value - largest), which are read once.
  template <class Stored>
  KOKKOS_INLINE_FUNCTION detail::OnlineSoftmax::Found softmaxOf(const Stored* values,
                                                                std::int64_t count) const {
    using Softmax = detail::OnlineSoftmax;
    const detail::PackedRow<Stored> row(values, count, alignedForPacks(values));
    Softmax::Found found;
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(member, row.items()),
        [&](std::int64_t item, Softmax::Found& own) {
          row.visit(item, [&](Real value, std::int64_t place) { Softmax::add(own, value, place); });
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
    const detail::PackedRow<Stored> row(values, count, alignedForPacks(values));
    Number total = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(member, row.items()),
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
    member.team_barrier(); // others may still read what is overwritten now
    Kokkos::parallel_for(Kokkos::TeamVectorRange(member, row.items()),
                         [&](std::int64_t item) { row.map(item, to, function); });
    member.team_barrier();
  }
  template <class Body>
  KOKKOS_INLINE_FUNCTION void each(std::int64_t count, const Body& body) const {
    member.team_barrier(); // others may still read what is overwritten now
    Kokkos::parallel_for(Kokkos::TeamVectorRange(member, count), body);
    member.team_barrier();
  }
  template <class Body>
  KOKKOS_INLINE_FUNCTION void once(const Body& body) const {
    Kokkos::single(Kokkos::PerTeam(member), body);
    member.team_barrier();
  }

 private:
  template <class Look>
  KOKKOS_INLINE_FUNCTION std::int64_t firstLargest(std::int64_t count, std::int64_t items,
                                                   const Look& look) const {
    detail::FirstLargest::Found found;
    Kokkos::parallel_reduce(Kokkos::TeamVectorRange(member, items), look, detail::FirstLargest(found));
    return found.place < count ? found.place : 0; // none is found if all are NaN or -infinity
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
