#pragma once

#include "partita/core/channels.hpp"
#include "partita/kernels/columns.hpp"

/// Kernels of the pooling layers. A work item of a host is a line of windows, or for gradients of places of
/// the input, each of which gathers what it gets from the windows that contain it.
namespace partita::pooling {

/// The part of a window's extent that lies inside the input; with padding it may be less than the whole.
struct Inside {
  KOKKOS_INLINE_FUNCTION Inside(const WindowPlan& w, int axis, std::int64_t window)
      : place(window * w.stride[axis] - w.before[axis]), begin(place < 0 ? -place : 0),
        end(w.in[axis] - place < w.kernel[axis] ? w.in[axis] - place : w.kernel[axis]) {}
  KOKKOS_INLINE_FUNCTION std::int64_t taps() const { return end - begin; }
  std::int64_t place;      ///< of the first tap, which may lie in the padding
  std::int64_t begin, end; ///< taps
};

/// Calls body(place of the input within its image) for the places of a window, in their order.
template <class Body>
KOKKOS_INLINE_FUNCTION void forInside(const WindowPlan& w, const PlaceAt& window, const Body& body) {
  const Inside z(w, 0, window.z), y(w, 1, window.y), x(w, 2, window.x);
  for (std::int64_t dz = z.begin; dz < z.end; ++dz) {
    for (std::int64_t dy = y.begin; dy < y.end; ++dy) {
      const std::int64_t line = ((z.place + dz) * w.in[1] + y.place + dy) * w.in[2] + x.place;
      for (std::int64_t dx = x.begin; dx < x.end; ++dx) body(line + dx);
    }
  }
}

/// Windows [begin, end) of an axis that contain a place of the input.
struct Covering {
  KOKKOS_INLINE_FUNCTION Covering(const WindowPlan& w, int axis, std::int64_t place) {
    const std::int64_t last = place + w.before[axis], first = last - w.kernel[axis] + 1,
                       stride = w.stride[axis];
    begin = first > 0 ? (first + stride - 1) / stride : 0;
    end = last / stride + 1 < w.out[axis] ? last / stride + 1 : w.out[axis];
  }
  std::int64_t begin, end;
};

/// Calls body(window within its image, z, y, x) for the windows that contain a place, in their order.
template <class Body>
KOKKOS_INLINE_FUNCTION void forCovering(const WindowPlan& w, const PlaceAt& place, const Body& body) {
  const Covering z(w, 0, place.z), y(w, 1, place.y), x(w, 2, place.x);
  for (std::int64_t wz = z.begin; wz < z.end; ++wz)
    for (std::int64_t wy = y.begin; wy < y.end; ++wy)
      for (std::int64_t wx = x.begin; wx < x.end; ++wx)
        body((wz * w.out[1] + wy) * w.out[2] + wx, wz, wy, wx);
}

struct Largest {
  WindowPlan w;
  const Real* in;
  Real *out, *place;
  std::int64_t channels;

  template <int Count>
  KOKKOS_INLINE_FUNCTION void operator()(Lanes<Count>, const PlaceAt& window, std::int64_t channel) const {
    const Real* image = in + window.row * placesOf(w.in) * channels + channel;
    Real best[Count], here[Count];
    for (int lane = 0; lane < Count; ++lane) best[lane] = -Real(INFINITY);
    for (int lane = 0; lane < Count; ++lane) here[lane] = Real(0);
    forInside(w, window, [&](std::int64_t number) {
      const Real *values = image + number * channels, at = static_cast<Real>(number);
      PARTITA_INDEPENDENT
      for (int lane = 0; lane < Count; ++lane) {
        here[lane] = values[lane] > best[lane] ? at : here[lane];
        best[lane] = values[lane] > best[lane] ? values[lane] : best[lane];
      }
    });
    const std::int64_t to = window.index * channels + channel;
    for (int lane = 0; lane < Count; ++lane) out[to + lane] = best[lane];
    for (int lane = 0; lane < Count; ++lane) place[to + lane] = here[lane];
  }
};

struct LargestGradient {
  WindowPlan w;
  const Real *place, *grad_out;
  Real* grad_in;
  std::int64_t channels;

  template <int Count>
  KOKKOS_INLINE_FUNCTION void operator()(Lanes<Count>, const PlaceAt& at, std::int64_t channel) const {
    const std::int64_t first = at.row * placesOf(w.out) * channels + channel;
    const auto own = static_cast<Real>(at.index - at.row * placesOf(w.in));
    Real sums[Count] = {};
    forCovering(w, at, [&](std::int64_t window, std::int64_t, std::int64_t, std::int64_t) {
      const Real *chosen = place + first + window * channels, *from = grad_out + first + window * channels;
      PARTITA_INDEPENDENT
      for (int lane = 0; lane < Count; ++lane) sums[lane] += chosen[lane] == own ? from[lane] : Real(0);
    });
    for (int lane = 0; lane < Count; ++lane) grad_in[at.index * channels + channel + lane] = sums[lane];
  }
};

/// One over the number of places of a window that lie inside the input.
KOKKOS_INLINE_FUNCTION Real shareOf(const WindowPlan& w, std::int64_t z, std::int64_t y, std::int64_t x) {
  return Real(1) /
         static_cast<Real>(Inside(w, 0, z).taps() * Inside(w, 1, y).taps() * Inside(w, 2, x).taps());
}

struct Mean {
  WindowPlan w;
  const Real* in;
  Real* out;
  std::int64_t channels;

  template <int Count>
  KOKKOS_INLINE_FUNCTION void operator()(Lanes<Count>, const PlaceAt& window, std::int64_t channel) const {
    const Real *image = in + window.row * placesOf(w.in) * channels + channel,
               share = shareOf(w, window.z, window.y, window.x);
    Real sums[Count] = {};
    forInside(w, window, [&](std::int64_t number) {
      const Real* values = image + number * channels;
      PARTITA_INDEPENDENT
      for (int lane = 0; lane < Count; ++lane) sums[lane] += values[lane];
    });
    for (int lane = 0; lane < Count; ++lane)
      out[window.index * channels + channel + lane] = sums[lane] * share;
  }
};

struct MeanGradient {
  WindowPlan w;
  const Real* grad_out;
  Real* grad_in;
  std::int64_t channels;

  template <int Count>
  KOKKOS_INLINE_FUNCTION void operator()(Lanes<Count>, const PlaceAt& at, std::int64_t channel) const {
    const Real* gradients = grad_out + at.row * placesOf(w.out) * channels + channel;
    Real sums[Count] = {};
    forCovering(w, at, [&](std::int64_t window, std::int64_t z, std::int64_t y, std::int64_t x) {
      const Real *from = gradients + window * channels, share = shareOf(w, z, y, x);
      PARTITA_INDEPENDENT
      for (int lane = 0; lane < Count; ++lane) sums[lane] += from[lane] * share;
    });
    for (int lane = 0; lane < Count; ++lane) grad_in[at.index * channels + channel + lane] = sums[lane];
  }
};

} // namespace partita::pooling
