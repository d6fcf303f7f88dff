#include "partita/core/typed_span.hpp"

#include "partita/core/error.hpp"
#include "partita/core/packs.hpp"

namespace partita {

namespace {

template <class From, class To>
struct Convert {
  const From* from;
  To* to;
  KernelFactor factor;
  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t i) const {
    const Real f = factor.value();
    P::store(to + i, P::map([=](Real value) { return f * value; }, P::load(from + i)));
  }
};

} // namespace

void convert(const ExecSpace& space, const TypedSpan& from, const TypedSpan& to, const DeviceFactor& factor) {
  PARTITA_REQUIRE(from.size == to.size, "source and target of a conversion differ in length");
  withStored(from.precision, [&](auto stored) {
    withStored(to.precision, [&](auto wanted) {
      using From = decltype(stored);
      using To = decltype(wanted);
      const Convert<From, To> body{static_cast<const From*>(from.data), static_cast<To*>(to.data),
                                   factor.inKernel()};
      forEachPack(space, "partita::convert", from.size, alignedForPacks(body.from, body.to), body);
    });
  });
}

} // namespace partita
