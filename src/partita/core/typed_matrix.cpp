#include "partita/core/typed_matrix.hpp"

#include "partita/core/packs.hpp"

namespace partita {

namespace {

template <class Stored>
struct AddScaled {
  Stored* to;
  const Stored* what;
  KernelFactor factor;
  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t i) const {
    const Real f = factor.value();
    P::store(to + i, P::map([=](Real a, Real b) { return a + f * b; }, P::load(to + i), P::load(what + i)));
  }
};

template <class Half>
struct Round {
  Real* values;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    values[i] = toReal(fromReal<Half>(values[i]));
  }
};

} // namespace

TypedRows::TypedRows(const std::string& label, Precision precision, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t each = sizeof(Real);
  const std::int64_t values = (rows * columns * bytesOf(precision) + each - 1) / each;
  _memory = Vector(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), values);
  _all = TypedMatrix(precision, _memory.data(), rows, columns);
}

void copyValues(const ExecSpace& space, const TypedMatrix& from, const TypedMatrix& to) {
  if (from.precision != to.precision) return convert(space, from.values(), to.values());
  if (!from.half()) return Kokkos::deep_copy(space, to.real(), from.real());
  using Halves = Kokkos::View<std::uint16_t*, Kokkos::LayoutRight, MemSpace>;
  Kokkos::deep_copy(space, Halves(static_cast<std::uint16_t*>(to.values().data), to.size()),
                    Halves(static_cast<std::uint16_t*>(from.values().data), from.size()));
}

void addScaled(const ExecSpace& space, const char* label, const TypedMatrix& to, const TypedMatrix& what,
               const DeviceFactor& factor) {
  PARTITA_REQUIRE(to.precision == what.precision && to.values().size == what.values().size,
                  "a sum of matrices that do not fit");
  withStored(to.precision, [&](auto stored) {
    using Stored = decltype(stored);
    const AddScaled<Stored> body{to.as<Stored>(), what.as<Stored>(), factor.inKernel()};
    forEachPack(space, label, to.size(), alignedForPacks(body.to, body.what), body);
  });
}

void roundTo(const ExecSpace& space, Precision precision, const TypedMatrix& values) {
  if (precision == Precision::single || values.half()) return;
  withStored(precision, [&](auto stored) {
    forEachValue(space, "partita::roundTo", values.size(),
                 Round<decltype(stored)>{static_cast<Real*>(values.values().data)});
  });
}

} // namespace partita
