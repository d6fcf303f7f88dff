#include "partita/core/typed_span.hpp"

#include "partita/core/error.hpp"
#include "partita/core/loops.hpp"

namespace partita {

namespace {

template <class From, class To>
struct Convert {
  const From* from;
  To* to;
  KernelFactor factor;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    to[i] = fromReal<To>(factor.value() * toReal(from[i]));
  }
};

} // namespace

void convert(const ExecSpace& space, const TypedSpan& from, const TypedSpan& to, const DeviceFactor& factor) {
  PARTITA_REQUIRE(from.size == to.size, "source and target of a conversion differ in length");
  withStored(from.precision, [&](auto stored) {
    withStored(to.precision, [&](auto wanted) {
      using From = decltype(stored);
      using To = decltype(wanted);
      forEachValue(space, "partita::convert", from.size,
                   Convert<From, To>{static_cast<const From*>(from.data), static_cast<To*>(to.data),
                                     factor.inKernel()});
    });
  });
}

} // namespace partita
