#pragma once

#include "partita/core/channels.hpp"
#include "partita/kernels/columns.hpp"
#include "partita/nn/places.hpp"

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
KOKKOS_INLINE_FUNCTION void forInside(const WindowPlan& w, const Inside (&axes)[3], const Body& body) {
  if (axes[0].taps() == 1 && axes[1].taps() == 2 &&
      axes[2].taps() == 2) { // the most common windows, unrolled
    const std::int64_t z = axes[0].place + axes[0].begin, y = axes[1].place + axes[1].begin,
                       first = (z * w.in[1] + y) * w.in[2] + axes[2].place + axes[2].begin,
                       second = first + w.in[2];
    body(first);
    body(first + 1);
    body(second);
    body(second + 1);
    return;
  }
  for (std::int64_t z = axes[0].begin; z < axes[0].end; ++z) {
    for (std::int64_t y = axes[1].begin; y < axes[1].end; ++y) {
      const std::int64_t line = ((axes[0].place + z) * w.in[1] + axes[1].place + y) * w.in[2] + axes[2].place;
      for (std::int64_t x = axes[2].begin; x < axes[2].end; ++x) body(line + x);
    }
  }
}

/// Windows [begin, end) of an axis that contain a place of the input.
struct Covering {
  KOKKOS_INLINE_FUNCTION Covering(const WindowPlan& w, int axis, std::int64_t place) {
    const std::int64_t last = place + w.before[axis], stride = w.stride[axis],
                       newest = quotient(last, stride),
                       rest = w.kernel[axis] - 1 - (last - newest * stride); // taps before it in that window
    std::int64_t count = rest < 0 ? 0 : 1;
    if (rest >= stride) count += quotient(rest, stride);
    begin = count > newest ? 0 : newest + 1 - count;
    end = newest + 1 < w.out[axis] ? newest + 1 : w.out[axis];
  }
  std::int64_t begin, end;
};

/// Calls body(window within its image, z, y, x) for the windows that contain a place, in their order.
template <class Body>
KOKKOS_INLINE_FUNCTION void forCovering(const WindowPlan& w, const Covering (&axes)[3], const Body& body) {
  for (std::int64_t z = axes[0].begin; z < axes[0].end; ++z)
    for (std::int64_t y = axes[1].begin; y < axes[1].end; ++y)
      for (std::int64_t x = axes[2].begin; x < axes[2].end; ++x)
        body((z * w.out[1] + y) * w.out[2] + x, z, y, x);
}

/// What is done with values, or with vectors of them.
struct Sum {
  template <class Values>
  KOKKOS_INLINE_FUNCTION Values operator()(const Values& a, const Values& b) const {
    return a + b;
  }
};
struct Times {
  Real factor;
  template <class Values>
  KOKKOS_INLINE_FUNCTION Values operator()(const Values& values) const {
    return values * factor;
  }
};
struct IfEqual {
  template <class Values>
  KOKKOS_INLINE_FUNCTION Values operator()(const Values& a, const Values& b, const Values& yes,
                                           const Values& no) const {
    return a == b ? yes : no;
  }
};

template <class Stored>
struct Largest {
  WindowPlan w;
  const Stored* in;
  Stored* out;
  Real* place;
  std::int64_t channels;

  bool aligned() const { return alignedForPacks(in, out, place); }

  KOKKOS_INLINE_FUNCTION void operator()(const PlaceAt& window, std::int64_t begin, std::int64_t end) const {
    const Inside inside[3] = {{w, 0, window.z}, {w, 1, window.y}, {w, 2, window.x}};
    const Stored* image = in + window.row * placesOf(w.in) * channels;
    Stored* values = out + window.index * channels;
    Real* chosen = place + window.index * channels;
    coverLanes(begin, end, [&](auto lanes, std::int64_t channel) {
      auto best = lanes.all(-Real(INFINITY)), here = lanes.all(0);
      forInside(w, inside, [&](std::int64_t number) {
        const auto value = lanes.load(image + number * channels + channel);
        here = lanes.map( // NaN is the largest value: it must not disappear
            [](const auto& own, const auto& most, const auto& its_place, const auto& other_place) {
              return (own <= most) | (most != most) ? its_place : other_place;
            },
            value, best, here, lanes.all(static_cast<Real>(number)));
        best = lanes.map(
            [](const auto& own, const auto& most) { return (own <= most) | (most != most) ? most : own; },
            value, best);
      });
      lanes.store(values + channel, best);
      lanes.store(chosen + channel, here);
    });
  }
};

/// Does each place of the input lie in exactly one window?
inline bool tiles(const WindowPlan& w) {
  for (int axis = 0; axis < 3; ++axis)
    if (w.stride[axis] != w.kernel[axis] || w.before[axis] != 0 || w.in[axis] != w.out[axis] * w.stride[axis])
      return false;
  return true;
}

/// Of windows that tile the input: each writes the gradients of its places.
template <class Stored>
struct LargestGradientOfTile {
  WindowPlan w;
  const Real* place;
  const Stored* grad_out;
  Stored* grad_in;
  std::int64_t channels;

  bool aligned() const { return alignedForPacks(place, grad_out, grad_in); }

  KOKKOS_INLINE_FUNCTION void operator()(const PlaceAt& window, std::int64_t begin, std::int64_t end) const {
    const Inside inside[3] = {{w, 0, window.z}, {w, 1, window.y}, {w, 2, window.x}};
    Stored* image = grad_in + window.row * placesOf(w.in) * channels;
    const std::int64_t first = window.index * channels;
    coverLanes(begin, end, [&](auto lanes, std::int64_t channel) {
      const auto chosen = lanes.load(place + first + channel),
                 gradient = lanes.load(grad_out + first + channel), none = lanes.all(0);
      forInside(w, inside, [&](std::int64_t number) {
        lanes.store(image + number * channels + channel,
                    lanes.map(IfEqual(), chosen, lanes.all(static_cast<Real>(number)), gradient, none));
      });
    });
  }
};

template <class Stored>
struct LargestGradient {
  WindowPlan w;
  const Real* place;
  const Stored* grad_out;
  Stored* grad_in;
  std::int64_t channels;

  bool aligned() const { return alignedForPacks(place, grad_out, grad_in); }

  KOKKOS_INLINE_FUNCTION void operator()(const PlaceAt& at, std::int64_t begin, std::int64_t end) const {
    const Covering covering[3] = {{w, 0, at.z}, {w, 1, at.y}, {w, 2, at.x}};
    const std::int64_t first = at.row * placesOf(w.out) * channels;
    const auto own = static_cast<Real>(at.index - at.row * placesOf(w.in));
    Stored* to = grad_in + at.index * channels;
    coverLanes(begin, end, [&](auto lanes, std::int64_t channel) {
      auto sums = lanes.all(0);
      const auto number = lanes.all(own), none = lanes.all(0);
      forCovering(w, covering, [&](std::int64_t window, std::int64_t, std::int64_t, std::int64_t) {
        const std::int64_t of_window = first + window * channels + channel;
        sums = lanes.map(Sum(), sums,
                         lanes.map(IfEqual(), lanes.load(place + of_window), number,
                                   lanes.load(grad_out + of_window), none));
      });
      lanes.store(to + channel, sums);
    });
  }
};

/// One over the number of places of a window that lie inside the input.
KOKKOS_INLINE_FUNCTION Real shareOf(const Inside (&inside)[3]) {
  return Real(1) / static_cast<Real>(inside[0].taps() * inside[1].taps() * inside[2].taps());
}

template <class Stored>
struct Mean {
  WindowPlan w;
  const Stored* in;
  Stored* out;
  std::int64_t channels;

  bool aligned() const { return alignedForPacks(in, out); }

  KOKKOS_INLINE_FUNCTION void operator()(const PlaceAt& window, std::int64_t begin, std::int64_t end) const {
    const Inside inside[3] = {{w, 0, window.z}, {w, 1, window.y}, {w, 2, window.x}};
    const Stored* image = in + window.row * placesOf(w.in) * channels;
    const Real share = shareOf(inside);
    Stored* values = out + window.index * channels;
    coverLanes(begin, end, [&](auto lanes, std::int64_t channel) {
      auto sums = lanes.all(0);
      forInside(w, inside, [&](std::int64_t number) {
        sums = lanes.map(Sum(), sums, lanes.load(image + number * channels + channel));
      });
      lanes.store(values + channel, lanes.map(Times{share}, sums));
    });
  }
};

/// Of windows that tile the input.
template <class Stored>
struct MeanGradientOfTile {
  WindowPlan w;
  const Stored* grad_out;
  Stored* grad_in;
  std::int64_t channels;

  bool aligned() const { return alignedForPacks(grad_out, grad_in); }

  KOKKOS_INLINE_FUNCTION void operator()(const PlaceAt& window, std::int64_t begin, std::int64_t end) const {
    const Inside inside[3] = {{w, 0, window.z}, {w, 1, window.y}, {w, 2, window.x}};
    Stored* image = grad_in + window.row * placesOf(w.in) * channels;
    const Stored* gradients = grad_out + window.index * channels;
    const Real share = shareOf(inside);
    coverLanes(begin, end, [&](auto lanes, std::int64_t channel) {
      const auto gradient = lanes.map(Times{share}, lanes.load(gradients + channel));
      forInside(w, inside,
                [&](std::int64_t number) { lanes.store(image + number * channels + channel, gradient); });
    });
  }
};

template <class Stored>
struct MeanGradient {
  WindowPlan w;
  const Stored* grad_out;
  Stored* grad_in;
  std::int64_t channels;

  bool aligned() const { return alignedForPacks(grad_out, grad_in); }

  KOKKOS_INLINE_FUNCTION void operator()(const PlaceAt& at, std::int64_t begin, std::int64_t end) const {
    const Covering covering[3] = {{w, 0, at.z}, {w, 1, at.y}, {w, 2, at.x}};
    const Stored* gradients = grad_out + at.row * placesOf(w.out) * channels;
    Stored* to = grad_in + at.index * channels;
    coverLanes(begin, end, [&](auto lanes, std::int64_t channel) {
      auto sums = lanes.all(0);
      forCovering(w, covering, [&](std::int64_t window, std::int64_t z, std::int64_t y, std::int64_t x) {
        const Inside inside[3] = {{w, 0, z}, {w, 1, y}, {w, 2, x}};
        sums =
            lanes.map(Sum(), sums,
                      lanes.map(Times{shareOf(inside)}, lanes.load(gradients + window * channels + channel)));
      });
      lanes.store(to + channel, sums);
    });
  }
};

} // namespace partita::pooling
