#pragma once

#include "partita/core/math.hpp"
#include "partita/core/packs.hpp"

/// What the threads of a row reduce, besides sums.
namespace partita::detail {

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

} // namespace partita::detail
