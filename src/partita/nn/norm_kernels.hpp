#pragma once

#include "partita/core/packs.hpp"
#include "partita/core/rows.hpp"
#include "partita/core/typed_span.hpp"
#include "partita/nn/activation.hpp"
#include "partita/nn/channel_sums.hpp"

#include <type_traits>

namespace partita {

/// Code shared by the kernels of the norms.

/// x[0] + ... + x[count - 1]
template <class Row, class Stored>
KOKKOS_INLINE_FUNCTION Real sumOf(const Row& row, const Stored* x, std::int64_t count) {
  return row.sumOf(x, count, [=](Real value, std::int64_t) { return value; });
}

/// The sum of (x[i] - middle)^2.
template <class Row, class Stored>
KOKKOS_INLINE_FUNCTION Real squaresAbout(const Row& row, const Stored* x, std::int64_t count, Real middle) {
  return row.sumOf(x, count, [=](Real value, std::int64_t) { return (value - middle) * (value - middle); });
}

/// Mean of each channel of a row, and the sum of squares about it.
template <class Stored>
struct ChannelMoments {
  const Stored* in;
  Real *mean, *squares; // [rows, channels]
  std::int64_t channels, places;

  bool aligned() const { return alignedForPacks(in); }

  template <class Channels>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, const Channels& of_row) const {
    const Stored* x = in + row * places * channels;
    const Real count = static_cast<Real>(places);
    Real *middle = mean + row * channels, *total = squares + row * channels;
    const std::int64_t width = channels;
    if constexpr (row_teams) return inOnePass(x, count, middle, total, of_row);
    of_row.sum(
        [=](auto pack, std::int64_t channel) {
          return [=](std::int64_t place) { return pack.load(x + place * width + channel); };
        },
        [=](std::int64_t channel, Real sum) { middle[channel] = sum / count; });
    of_row.sum(
        [=](auto pack, std::int64_t channel) {
          const auto own = pack.load(middle + channel);
          return [=](std::int64_t place) {
            return pack.map([](Real value, Real mean) { return (value - mean) * (value - mean); },
                            pack.load(x + place * width + channel), own);
          };
        },
        [=](std::int64_t channel, Real sum) { total[channel] = sum; });
  }

 private:
  /// For devices, whose caches do not keep the values for a second pass. It sums differences from the first
  /// value, so that little cancels when the square of their mean is subtracted.
  template <class Channels>
  KOKKOS_INLINE_FUNCTION void inOnePass(const Stored* x, Real count, Real* middle, Real* total,
                                        const Channels& of_row) const {
    const std::int64_t width = channels;
    of_row.sums(
        [=](auto pack, std::int64_t channel) {
          const auto first = pack.load(x + channel);
          return [=](std::int64_t place) {
            const auto apart = pack.map([](Real value, Real from) { return value - from; },
                                        pack.load(x + place * width + channel), first);
            return TwoOf<typename decltype(pack)::Values>{
                apart, pack.map([](Real value) { return value * value; }, apart)};
          };
        },
        [=](std::int64_t channel, const TwoValues& sums) {
          const Real apart = sums.first / count, squares_about = sums.second - sums.first * apart;
          middle[channel] = toReal(x[channel]) + apart;
          total[channel] = squares_about <= 0 ? Real(0) : squares_about; // NaN stays NaN
        });
  }
};

/// Mean and one over the deviation: one of each per channel, or with `row_stride` per channel of a row.
struct ChannelStatistics {
  const Real *mean, *inverse;
  std::int64_t row_stride = 0;
};

/// y = act(scale (x - mean) / deviation + shift), scale and shift one per channel.
template <class Act, class Stored>
struct Normalise {
  Act act;
  const Stored* in;
  ChannelStatistics statistics;
  const Real *scale, *shift;
  Stored* out;
  std::int64_t channels, places;

  bool aligned() const {
    return alignedForPacks(in, statistics.mean, statistics.inverse, scale, shift, out) &&
           statistics.row_stride % values_per_pack == 0;
  }

  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t row, std::int64_t place,
                                         std::int64_t channel) const {
    const std::int64_t i = (row * places + place) * channels + channel,
                       at = row * statistics.row_stride + channel;
    const Act local = act;
    P::store(out + i, P::map(
                          [=](Real x, Real mean, Real inverse, Real of_channel, Real offset) {
                            const Real factor = inverse * of_channel;
                            return local.value((x - mean) * factor + offset);
                          },
                          P::load(in + i), P::load(statistics.mean + at), P::load(statistics.inverse + at),
                          P::load(scale + channel), P::load(shift + channel)));
  }
};

/// g = dJ/dy act'(z) in place, and the sums of g and of g x^ over the places of each channel of a row, where
/// x^ = (x - mean) / deviation.
template <class Act, class Stored>
struct GradientSums {
  static constexpr bool changes = !std::is_same_v<Act, Identity>; ///< g is not dJ/dy
  Act act;
  const Stored *in, *out;
  ChannelStatistics statistics;
  const Real *scale, *shift;
  Stored* grad;
  Real *sum, *product;
  std::int64_t channels, places;

  bool aligned() const {
    return alignedForPacks(in, out, grad, statistics.mean, statistics.inverse, scale, shift) &&
           statistics.row_stride % values_per_pack == 0;
  }

  template <class Channels>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, const Channels& of_row) const {
    const Act local = act;
    const std::int64_t begin = row * places * channels, width = channels;
    const Stored *x = in + begin, *y = out + begin;
    const Real *middle = statistics.mean + row * statistics.row_stride,
               *inverse = statistics.inverse + row * statistics.row_stride, *factor = scale, *offset = shift;
    Stored* g = grad + begin;
    Real *sums = sum + row * channels, *products = product + row * channels;
    of_row.sums(
        [=](auto pack, std::int64_t channel) {
          const auto mean = pack.load(middle + channel), shifted = pack.load(offset + channel),
                     slope = pack.map([](Real a, Real b) { return a * b; }, pack.load(inverse + channel),
                                      pack.load(factor + channel));
          return [=](std::int64_t place) {
            const std::int64_t i = place * width + channel;
            const auto of_y = pack.load(y + i),
                       apart =
                           pack.map([](Real value, Real of) { return value - of; }, pack.load(x + i), mean);
            auto gradient = pack.load(g + i);
            if constexpr (changes) {
              gradient = pack.map(
                  [=](Real of_out, Real out_value, Real from_mean, Real of_channel, Real to) {
                    const Real z = Act::needs_argument ? from_mean * of_channel + to : out_value;
                    return toReal(fromReal<Stored>(of_out * local.derivative(z, out_value)));
                  },
                  gradient, of_y, apart, slope, shifted);
              pack.store(g + i, gradient);
            }
            return TwoOf<typename decltype(pack)::Values>{
                gradient,
                pack.map([](Real of_z, Real from_mean) { return of_z * from_mean; }, gradient, apart)};
          };
        },
        [=](std::int64_t channel, const TwoValues& total) {
          sums[channel] = total.first;
          products[channel] = inverse[channel] * total.second;
        });
  }
};

} // namespace partita
