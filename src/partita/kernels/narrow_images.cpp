#include "partita/kernels/narrow_images.hpp"

#include "partita/core/channels.hpp"

namespace partita::narrow {

#ifdef PARTITA_LANE_VECTORS

namespace {

/// Images with their padding.
struct Pad {
  const Real* in;
  Real* to;
  WindowPlan w;
  std::int64_t seen[3], channels;

  /// An item is a line with its padding.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t plane = item / seen[1], row = plane / seen[0], z = plane - row * seen[0] - w.before[0],
                       y = item - plane * seen[1] - w.before[1], width = seen[2] * channels;
    Real* line = to + item * width;
    const bool inside = z >= 0 && y >= 0 && z < w.in[0] && y < w.in[1];
    const std::int64_t before = w.before[2] * channels, first = before > 0 ? before : 0,
                       begin = inside && first < width ? first : width, after = before + w.in[2] * channels,
                       end = after < width ? after : width;
    const Real* from = in + ((row * w.in[0] + z) * w.in[1] + y) * w.in[2] * channels - before;
    for (std::int64_t i = 0; i < begin; ++i) line[i] = 0;
    for (std::int64_t i = begin; i < end; ++i) line[i] = from[i];
    for (std::int64_t i = end; i < width; ++i) line[i] = 0;
  }
};

} // namespace

Images imagesOf(const ExecSpace& space, const ConvolutionPlan& plan, const Matrix& in, Real* work) {
  const std::int64_t channels = plan.in_channels;
  Images images{in.data(),        0,           0, 0, channels, plan.out_channels, plan.narrowWidth(),
                plan.runLength(), plan.windows};
  std::int64_t extents[3];
  const bool copied = plan.paddedValues() > 0;
  for (int a = 0; a < 3; ++a) extents[a] = copied ? plan.windows.seen(a) : plan.windows.in[a];
  images.line = extents[2] * channels;
  images.plane = extents[1] * images.line;
  images.row = extents[0] * images.plane;
  if (!copied) {
    images.values -= plan.windows.before[0] * images.plane + plan.windows.before[1] * images.line +
                     plan.windows.before[2] * channels; // windows may begin inside the image
    return images;
  }
  const Pad pad{in.data(), work, plan.windows, {extents[0], extents[1], extents[2]}, channels};
  Kokkos::parallel_for("partita::narrow::pad_kernel", Range(space, 0, in.extent(0) * extents[0] * extents[1]),
                       pad);
  images.values = work;
  return images;
}

#endif

} // namespace partita::narrow
