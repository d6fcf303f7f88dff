#include "partita/core/image_layout.hpp"

#include "partita/core/loops.hpp"

namespace partita {

namespace {

/// Transposes each sample: from [rows, height, width] -> to [rows, width, height].
template <class Stored>
struct Transpose {
  const Stored* from;
  Stored* to;
  std::int64_t height, width;

  /// An item is one row of a transposed sample.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t begin, std::int64_t end) const {
    const std::int64_t sample = item / width, column = item - sample * width, step = width;
    const Stored* source = from + sample * height * width + column;
    Stored* target = to + item * height;
    PARTITA_INDEPENDENT
    for (std::int64_t i = begin; i < end; ++i) target[i] = source[i * step];
  }
};

void transpose(const ExecSpace& space, const TypedMatrix& from, const TypedMatrix& to, std::int64_t height,
               std::int64_t width) {
  PARTITA_REQUIRE(from.precision == to.precision, "samples that are not stored alike");
  withStored(from.precision, [&](auto stored) {
    using Stored = decltype(stored);
    forEachRun(space, "partita::ImageLayout::transpose", from.rows * width, height,
               Transpose<Stored>{from.as<Stored>(), to.as<Stored>(), height, width});
  });
}

} // namespace

void toShapeOrder(const ExecSpace& space, const ImageLayout& layout, const TypedMatrix& from,
                  const TypedMatrix& to) {
  transpose(space, from, to, layout.places, layout.channels);
}

void fromShapeOrder(const ExecSpace& space, const ImageLayout& layout, const TypedMatrix& from,
                    const TypedMatrix& to) {
  transpose(space, from, to, layout.channels, layout.places);
}

} // namespace partita
