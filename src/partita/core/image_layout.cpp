#include "partita/core/image_layout.hpp"

#include "partita/core/loops.hpp"

namespace partita {

namespace {

/// Transposes each sample: from [rows, height, width] -> to [rows, width, height].
struct Transpose {
  const Real* from;
  Real* to;
  std::int64_t height, width;

  /// An item is one row of a transposed sample.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t begin, std::int64_t end) const {
    const std::int64_t sample = item / width, column = item - sample * width, step = width;
    const Real* source = from + sample * height * width + column;
    Real* target = to + item * height;
    PARTITA_INDEPENDENT
    for (std::int64_t i = begin; i < end; ++i) target[i] = source[i * step];
  }
};

void transpose(const ExecSpace& space, const Matrix& from, const Matrix& to, std::int64_t height,
               std::int64_t width) {
  forEachRun(space, "partita::ImageLayout::transpose", from.extent(0) * width, height,
             Transpose{from.data(), to.data(), height, width});
}

} // namespace

void toShapeOrder(const ExecSpace& space, const ImageLayout& layout, const Matrix& from, const Matrix& to) {
  transpose(space, from, to, layout.places, layout.channels);
}

void fromShapeOrder(const ExecSpace& space, const ImageLayout& layout, const Matrix& from, const Matrix& to) {
  transpose(space, from, to, layout.channels, layout.places);
}

} // namespace partita
