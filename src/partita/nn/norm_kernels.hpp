#pragma once

#include "partita/core/rows.hpp"

namespace partita {

/// Code shared by the kernels of the norms.

/// x[0] + ... + x[count - 1]
template <class Row>
KOKKOS_INLINE_FUNCTION Real sumOf(const Row& row, const Real* x, std::int64_t count) {
  return row.sum(count, [=](std::int64_t i) { return x[i]; });
}

/// The sum of (x[i] - middle)^2.
template <class Row>
KOKKOS_INLINE_FUNCTION Real squaresAbout(const Row& row, const Real* x, std::int64_t count, Real middle) {
  return row.sum(count, [=](std::int64_t i) { return (x[i] - middle) * (x[i] - middle); });
}

/// Locates the mean and one over the deviation of a channel of a row: one of each per channel, or with
/// `row_stride` one of each per row and `group` channels.
struct ChannelStatistics {
  const Real *mean, *inverse;
  std::int64_t row_stride = 0, group = 1;

  KOKKOS_INLINE_FUNCTION std::int64_t place(std::int64_t row, std::int64_t channel) const {
    return row_stride == 0 ? channel : row * row_stride + channel / group;
  }
};

/// y = act(scale (x - mean) / deviation + shift), scale and shift one per channel.
template <class Act>
struct Normalise {
  Act act;
  const Real* in;
  ChannelStatistics statistics;
  const Real *scale, *shift;
  Real* out;
  std::int64_t channels, places;

  /// An item is one channel of one row; it runs over places.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t begin, std::int64_t end) const {
    const Act local = act;
    const std::int64_t channel = item % channels, place = statistics.place(item / channels, channel);
    const Real factor = statistics.inverse[place] * scale[channel], middle = statistics.mean[place],
               offset = shift[channel];
    const Real* x = in + item * places;
    Real* y = out + item * places;
    PARTITA_INDEPENDENT
    for (std::int64_t i = begin; i < end; ++i) y[i] = local.value((x[i] - middle) * factor + offset);
  }
};

/// g = dJ/dy act'(z) in place, and the sums of g and of g x^ over the places of each channel of a row, where
/// x^ = (x - mean) / deviation.
template <class Act>
struct GradientSums {
  Act act;
  const Real *in, *out;
  ChannelStatistics statistics;
  const Real *scale, *shift;
  Real *grad, *sum, *product;
  std::int64_t channels, places;

  /// An item is one channel of one row.
  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, const Row& row) const {
    const Act local = act;
    const std::int64_t channel = item % channels, place = statistics.place(item / channels, channel);
    const Real middle = statistics.mean[place], inverse = statistics.inverse[place],
               factor = inverse * scale[channel], offset = shift[channel];
    const Real *x = in + item * places, *y = out + item * places;
    Real* g = grad + item * places;
    const Real first = row.sum(places, [=](std::int64_t i) {
      const Real z = Act::needs_argument ? (x[i] - middle) * factor + offset : y[i];
      return g[i] *= local.derivative(z, y[i]);
    });
    const Real second = row.sum(places, [=](std::int64_t i) { return g[i] * (x[i] - middle); });
    Real *sums = sum, *products = product;
    row.once([=]() {
      sums[item] = first;
      products[item] = inverse * second;
    });
  }
};

} // namespace partita
