#pragma once

#include "partita/core/packs.hpp"

namespace partita::detail {

/// A row as work for several threads: packs of its values, then the values that are left.
template <class Stored>
class PackedRow {
 public:
  /// For sums: the order of additions must not depend on the address, so there are packs even if their values
  /// must be read one by one.
  KOKKOS_INLINE_FUNCTION PackedRow(const Stored* values, std::int64_t count)
      : PackedRow(values, count, count / values_per_pack, alignedForPacks(values)) {}
  /// For what depends on no order: there are packs only if they may be read as a whole, because otherwise
  /// neighbouring threads had better read neighbouring values.
  KOKKOS_INLINE_FUNCTION PackedRow(const Stored* values, std::int64_t count, bool aligned)
      : PackedRow(values, count, aligned ? count / values_per_pack : 0, aligned) {}

  KOKKOS_INLINE_FUNCTION std::int64_t items() const { return _items; }

  /// Calls body(pack, its values, the place of the first), where `pack` is a Pack<1> for the values that are
  /// left.
  template <class Body>
  KOKKOS_INLINE_FUNCTION void visitPack(std::int64_t item, const Body& body) const {
    using Many = Pack<values_per_pack>;
    if (item >= _packs) return body(Pack<1>(), toReal(_values[placeOf(item)]), placeOf(item));
    const Stored* from = _values + placeOf(item);
    typename Many::Values values;
    if (_aligned)
      values = Many::load(from);
    else
      for (int k = 0; k < values_per_pack; ++k) values.of[k] = toReal(from[k]);
    body(Many(), values, placeOf(item));
  }
  /// Calls body(value, its place) for the values of an item.
  template <class Body>
  KOKKOS_INLINE_FUNCTION void visit(std::int64_t item, const Body& body) const {
    visitPack(item, [&](auto pack, const auto& values, std::int64_t first) {
      for (int k = 0; k < pack.count; ++k) body(pack.at(values, k), first + k);
    });
  }
  /// to[place] = function(value, place) for the values of an item; packs must be aligned, here and in `to`.
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
  KOKKOS_INLINE_FUNCTION PackedRow(const Stored* values, std::int64_t count, std::int64_t packs, bool aligned)
      : _values(values), _packs(packs), _items(count - packs * (values_per_pack - 1)), _aligned(aligned) {}

  KOKKOS_INLINE_FUNCTION std::int64_t placeOf(std::int64_t item) const {
    return item < _packs ? item * values_per_pack : item + _packs * (values_per_pack - 1);
  }

  const Stored* _values;
  std::int64_t _packs, _items;
  bool _aligned;
};

} // namespace partita::detail
