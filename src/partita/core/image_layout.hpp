#pragma once

#include "partita/core/typed_matrix.hpp"
#include "partita/plan/shape.hpp"

namespace partita {

/// The position in the memory of a sample of the value that has this number in the order of the
/// shape.
KOKKOS_INLINE_FUNCTION std::int64_t inMemory(const ImageLayout& layout, std::int64_t number) {
  return number % layout.places * layout.channels + number / layout.places;
}

/// Samples as they lie in memory -> samples in the order of the shape, one per row. Both must have
/// the same precision.
void toShapeOrder(const ExecSpace& space, const ImageLayout& layout, const TypedMatrix& from,
                  const TypedMatrix& to);
/// The reverse.
void fromShapeOrder(const ExecSpace& space, const ImageLayout& layout, const TypedMatrix& from,
                    const TypedMatrix& to);

} // namespace partita
