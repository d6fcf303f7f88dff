#pragma once

#include "partita/nn/norm_kernels.hpp"

/// The kernels of `BatchNorm`: statistics of the channels of a batch, and their gradients.
namespace partita::batch_norm {

/// Number of the values of a channel: of this rank, or counted on the device for several.
struct Count {
  Real own;
  const Real* of_ranks; // null: this rank is alone
  KOKKOS_INLINE_FUNCTION Real value() const { return of_ranks == nullptr ? own : *of_ranks; }
};

/// Sum and number of the values of each channel.
struct SumOfMeans {
  const Real* mean;
  Real *sum, *count;
  std::int64_t rows, channels, places;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t channel, const Row& row) const {
    const Real* own = mean + channel;
    const std::int64_t step = channels;
    const Real total = row.sumStrided(rows, [=](std::int64_t i) { return own[i * step]; });
    const SumOfMeans local = *this;
    row.once([=]() {
      local.sum[channel] = total * static_cast<Real>(local.places);
      if (channel == 0) *local.count = static_cast<Real>(local.rows * local.places);
    });
  }
};

/// Computes squares about the mean of the batch from those about the means of its rows (Chan, Golub and
/// LeVeque, 1983).
struct SumOfSquares {
  const Real *mean, *squares, *sum;
  Count count;
  Real* result;
  std::int64_t rows, channels, places;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t channel, const Row& row) const {
    const Real middle = sum[channel] / count.value(), n = static_cast<Real>(places);
    const Real *own_mean = mean + channel, *own_squares = squares + channel;
    const std::int64_t step = channels;
    const Real total = row.sumStrided(rows, [=](std::int64_t i) {
      const Real apart = own_mean[i * step] - middle;
      return own_squares[i * step] + n * apart * apart;
    });
    Real* to = result + channel;
    row.once([=]() { *to = total; });
  }
};

/// Mean and 1 / deviation of the batch. Updates the running ones, with the unbiased variance.
struct Conclude {
  const Real *sum, *squares;
  Count count;
  Real *mean, *inverse, *running_mean, *running_variance; // running null: left as they are
  Real epsilon, momentum;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t channel) const {
    const Real n = count.value(), middle = sum[channel] / n;
    mean[channel] = middle;
    inverse[channel] = 1 / sqrt(squares[channel] / n + epsilon);
    if (running_mean == nullptr) return;
    const Real variance = squares[channel] / (n > 1 ? n - 1 : 1);
    running_mean[channel] += momentum * (middle - running_mean[channel]);
    running_variance[channel] += momentum * (variance - running_variance[channel]);
  }
};

/// All of these for a rank that is alone: kernels this small take less time than their launches.
struct Measure {
  SumOfMeans means;
  SumOfSquares squares;
  Conclude conclude;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t channel, const Row& row) const {
    means(channel, row);
    squares(channel, row);
    const Conclude last = conclude;
    row.once([=]() { last(channel); });
  }
};

struct TakeRunning {
  const Real *running_mean, *running_variance;
  Real *mean, *inverse, epsilon;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t channel) const {
    mean[channel] = running_mean[channel];
    inverse[channel] = 1 / sqrt(running_variance[channel] + epsilon);
  }
};

/// Sums over the rows: the gradients of shift and scale, which the input's gradient needs as well.
struct ParameterGradients {
  const Real *sum, *product;
  Real *all_sums, *all_products, *count, *shift_gradient, *scale_gradient;
  std::int64_t rows, channels, places;
  bool accumulate;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t channel, const Row& row) const {
    const Real *own_sum = sum + channel, *own_product = product + channel;
    const std::int64_t step = channels;
    const Real shift = row.sumStrided(rows, [=](std::int64_t i) { return own_sum[i * step]; }),
               scale = row.sumStrided(rows, [=](std::int64_t i) { return own_product[i * step]; });
    const ParameterGradients local = *this;
    row.once([=]() { local.put(channel, shift, scale); });
  }

 private:
  KOKKOS_INLINE_FUNCTION void put(std::int64_t channel, Real shift, Real scale) const {
    all_sums[channel] = shift;
    all_products[channel] = scale;
    if (channel == 0) *count = static_cast<Real>(rows * places);
    shift_gradient[channel] = shift + (accumulate ? shift_gradient[channel] : Real(0));
    scale_gradient[channel] = scale + (accumulate ? scale_gradient[channel] : Real(0));
  }
};

/// Means of g, and of g x^ divided by the deviation, in place of the sums; 0 if mean and deviation do not
/// depend on the batch.
struct MeanGradients {
  Real *sums, *products;
  const Real* inverse;
  Count count;
  bool of_batch;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t channel) const {
    const Real share = of_batch ? 1 / count.value() : Real(0);
    sums[channel] *= share;
    products[channel] *= share * inverse[channel];
  }
};

/// Both for a rank that is alone.
struct Gradients {
  ParameterGradients parameters;
  MeanGradients means;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t channel, const Row& row) const {
    parameters(channel, row);
    const MeanGradients last = means;
    row.once([=]() { last(channel); });
  }
};

/// dJ/dx = scale / deviation (g - mean of g - x^ mean of g x^); the means are over the batch.
template <class Stored>
struct InputGradient {
  const Stored *in, *grad;
  const Real *mean, *inverse, *scale, *constant, *slope;
  Stored* grad_in;
  std::int64_t channels, places;

  bool aligned() const { return alignedForPacks(in, grad, mean, inverse, scale, constant, slope, grad_in); }

  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t row, std::int64_t place,
                                         std::int64_t channel) const {
    const std::int64_t i = (row * places + place) * channels + channel;
    const auto factor =
        P::map([](Real a, Real b) { return a * b; }, P::load(inverse + channel), P::load(scale + channel));
    P::store(grad_in + i,
             P::map([](Real f, Real g, Real c, Real x, Real m, Real s) { return f * (g - c - (x - m) * s); },
                    factor, P::load(grad + i), P::load(constant + channel), P::load(in + i),
                    P::load(mean + channel), P::load(slope + channel)));
  }
};

} // namespace partita::batch_norm
