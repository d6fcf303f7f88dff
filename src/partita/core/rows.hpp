#pragma once

#include "partita/core/math.hpp"
#include "partita/core/packs.hpp"

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
  /// Adds the values of a Pack that begins at this place.
  template <class P>
  KOKKOS_INLINE_FUNCTION static void add(Found& found, const typename P::Values& values, std::int64_t first) {
    Real largest = found.largest;
    for (int k = 0; k < P::count; ++k) largest = P::at(values, k) > largest ? P::at(values, k) : largest;
    if (largest > found.largest) {
      for (int k = P::count - 1; k >= 0; --k)
        if (P::at(values, k) == largest) found.place = first + k;
      found.sum *= rowExp(found.largest - largest);
      found.largest = largest;
    }
    for (int k = 0; k < P::count; ++k) found.sum += rowExp(P::at(values, k) - largest);
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

/// A row as work for several threads: packs of its values if they may be read in packs, then the values that
/// are left.
template <class Stored>
class PackedRow {
 public:
  KOKKOS_INLINE_FUNCTION PackedRow(const Stored* values, std::int64_t count, bool aligned)
      : _values(values), _packs(aligned ? count / values_per_pack : 0),
        _items(count - _packs * (values_per_pack - 1)) {}

  KOKKOS_INLINE_FUNCTION std::int64_t items() const { return _items; }

  /// Calls body(pack, its values, the place of the first), where `pack` is a Pack<1> for the values that are
  /// left.
  template <class Body>
  KOKKOS_INLINE_FUNCTION void visitPack(std::int64_t item, const Body& body) const {
    using Many = Pack<values_per_pack>;
    if (item >= _packs) return body(Pack<1>(), toReal(_values[placeOf(item)]), placeOf(item));
    body(Many(), Many::load(_values + placeOf(item)), placeOf(item));
  }
  /// Calls body(value, its place) for the values of an item.
  template <class Body>
  KOKKOS_INLINE_FUNCTION void visit(std::int64_t item, const Body& body) const {
    visitPack(item, [&](auto pack, const auto& values, std::int64_t first) {
      for (int k = 0; k < pack.count; ++k) body(pack.at(values, k), first + k);
    });
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
  /// The first largest value, and the sum of exp(value - largest), which are read once.
  template <class Stored>
  KOKKOS_INLINE_FUNCTION detail::OnlineSoftmax::Found softmaxOf(const Stored* values,
                                                                std::int64_t count) const {
    using Softmax = detail::OnlineSoftmax;
    const detail::PackedRow<Stored> row(values, count, alignedForPacks(values));
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
    const detail::PackedRow<Stored> row(values, count, alignedForPacks(values));
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
  const int teams = static_cast<int>(rows);
  return device_is_host ? Team(space, teams, 1) : Team(space, teams, 8, 32);
}

/// If there are many rows, blocks of several warps fill a device better than blocks of one warp.
inline std::int64_t rowsPerTeam(std::int64_t rows) {
  constexpr std::int64_t teams_wanted = 1024, most = 8;
  return std::max(std::int64_t{1}, std::min(most, rows / teams_wanted));
}

inline Team warpTeams(const ExecSpace& space, std::int64_t rows, std::int64_t rows_per_team) {
  const auto teams = static_cast<int>((rows + rows_per_team - 1) / rows_per_team);
  return device_is_host ? Team(space, teams, 1) : Team(space, teams, static_cast<int>(rows_per_team), 32);
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
