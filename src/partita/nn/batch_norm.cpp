#include "partita/nn/batch_norm.hpp"

#include "partita/comm/part_exchange.hpp"
#include "partita/comm/replica_reduce.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/activation.hpp"
#include "partita/nn/norm_kernels.hpp"

#include <algorithm>

namespace partita {

namespace {

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
    const Real total = row.sumInOrder(rows, [=](std::int64_t i) { return own[i * step]; });
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
    const Real total = row.sumInOrder(rows, [=](std::int64_t i) {
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
    const Real shift = row.sumInOrder(rows, [=](std::int64_t i) { return own_sum[i * step]; }),
               scale = row.sumInOrder(rows, [=](std::int64_t i) { return own_product[i * step]; });
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

/// Images as the kernels add them up: where images have few places, a team on a device treats several
/// neighbouring ones as one.
struct JoinedImages {
  std::int64_t rows, places;
};

JoinedImages joined(std::int64_t rows, std::int64_t places) {
  constexpr std::int64_t most_places = 1024;
  if (!row_teams) return {rows, places};
  std::int64_t images = std::max(std::int64_t{1}, std::min(rows, most_places / places));
  while (rows % images != 0) --images;
  return {rows / images, places * images};
}

Vector part(const Vector& values, std::int64_t begin, std::int64_t size) {
  return Vector(values.data() + begin, size);
}

} // namespace

BatchNorm::BatchNorm(const LayerPlan& plan)
    : PlannedLayer(plan), _channels(plan.in.front()), _places(plan.inputs() / plan.in.front()) {}

void BatchNorm::bind(const LayerNumbers& numbers) {
  LayerTensors tensors(numbers);
  _scale = tensors.real(_channels);
  _shift = tensors.real(_channels);
}

void BatchNorm::bindStatistics(const Vector& statistics) {
  _mean = part(statistics, 0, _channels);
  _variance = part(statistics, _channels, _channels);
}

void BatchNorm::initialise(std::uint64_t, const std::string& tensor, const TensorSlice& slice,
                           Real* values) const {
  std::fill_n(values, slice.size(), tensor == "scale" ? Real(1) : Real(0));
}

void BatchNorm::initialiseStatistics(Real* values) const {
  std::fill_n(values, _channels, Real(0));
  std::fill_n(values + _channels, _channels, Real(1));
}

BatchNorm::Sums BatchNorm::sumsIn(const Pass& pass, std::int64_t rows) const {
  const std::int64_t size = rows * _channels;
  return {pass.work.data(), pass.work.data() + size, part(pass.work, 2 * size, 2 * _channels + 1)};
}

bool BatchNorm::isAlone(const Pass& pass) const {
  const bool replicated = _plan.spec.batch_norm.replicas && pass.replicas != nullptr;
  return !replicated && !(_plan.part && _plan.part->by_places);
}

void BatchNorm::sumOverRanks(const ExecSpace& space, const Pass& pass, const Vector& values) const {
  if (_plan.spec.batch_norm.replicas && pass.replicas != nullptr) pass.replicas->sum(space, values);
  if (_plan.part && _plan.part->by_places) pass.parts->sum(space, values);
}

/// Mean and 1 / deviation for this pass.
void BatchNorm::measure(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, Real* mean,
                        Real* inverse) {
  const auto epsilon = static_cast<Real>(_plan.spec.batch_norm.epsilon);
  if (!pass.training) {
    forEachValue(space, "partita::BatchNorm::take_running_kernel", _channels,
                 TakeRunning{_mean.data(), _variance.data(), mean, inverse, epsilon});
    return;
  }
  const JoinedImages images = joined(in.rows, _places);
  const Sums sums = sumsIn(pass, images.rows);
  Real *squares = sums.all.data(), *sum = squares + _channels, *count = sum + _channels;
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    const ChannelMoments<Stored> body{in.as<Stored>(), sums.first, sums.second, _channels, images.places};
    forEachImage(space, "partita::BatchNorm::moments_kernel", images.rows, images.places, _channels,
                 body.aligned(), body);
  });
  const bool counts = !pass.again, alone = isAlone(pass);
  const Count of_channel{static_cast<Real>(images.rows * images.places), alone ? nullptr : count};
  const SumOfMeans of_means{sums.first, sum, count, images.rows, _channels, images.places};
  const SumOfSquares of_squares{sums.first, sums.second, sum,       of_channel,
                                squares,    images.rows, _channels, images.places};
  const Conclude conclude{sum,
                          squares,
                          of_channel,
                          mean,
                          inverse,
                          counts ? _mean.data() : nullptr,
                          counts ? _variance.data() : nullptr,
                          epsilon,
                          static_cast<Real>(_plan.spec.batch_norm.momentum)};
  if (alone)
    return forEachRow(space, "partita::BatchNorm::measure_kernel", _channels, images.rows,
                      Measure{of_means, of_squares, conclude});
  forEachRow(space, "partita::BatchNorm::sum_of_means_kernel", _channels, images.rows, of_means);
  sumOverRanks(space, pass, part(sums.all, _channels, _channels + 1));
  forEachRow(space, "partita::BatchNorm::sum_of_squares_kernel", _channels, images.rows, of_squares);
  sumOverRanks(space, pass, part(sums.all, 0, _channels));
  forEachValue(space, "partita::BatchNorm::conclude_kernel", _channels, conclude);
}

void BatchNorm::forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                        const TypedMatrix& out, const Matrix& saved) {
  const Region region(space, "partita::BatchNorm::forward", Phase::elementwise);
  Real *mean = saved.data(), *inverse = mean + _channels;
  measure(space, pass, in, mean, inverse);
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
      const Normalise<decltype(act), Stored> body{act,
                                                  in.as<Stored>(),
                                                  ChannelStatistics{mean, inverse},
                                                  _scale.values.data(),
                                                  _shift.values.data(),
                                                  out.as<Stored>(),
                                                  _channels,
                                                  _places};
      forEachChannelPack(space, "partita::BatchNorm::forward_kernel", in.rows, _places, _channels,
                         body.aligned(), body);
    });
  });
}

void BatchNorm::backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                         const TypedMatrix& out, const Matrix& saved, const TypedMatrix& grad_out,
                         const TypedMatrix& grad_in) {
  const Region region(space, "partita::BatchNorm::backward", Phase::elementwise);
  const std::int64_t rows = in.rows;
  const Real *mean = saved.data(), *inverse = mean + _channels;
  const JoinedImages images = joined(rows, _places);
  const Sums sums = sumsIn(pass, images.rows);
  Real *all_sums = sums.all.data(), *all_products = all_sums + _channels, *count = all_products + _channels;
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
      const GradientSums<decltype(act), Stored> body{act,
                                                     in.as<Stored>(),
                                                     out.as<Stored>(),
                                                     ChannelStatistics{mean, inverse},
                                                     _scale.values.data(),
                                                     _shift.values.data(),
                                                     grad_out.as<Stored>(),
                                                     sums.first,
                                                     sums.second,
                                                     _channels,
                                                     images.places};
      forEachImage(space, "partita::BatchNorm::gradient_sums_kernel", images.rows, images.places, _channels,
                   body.aligned(), body);
    });
  });
  const ParameterGradients parameters{sums.first,
                                      sums.second,
                                      all_sums,
                                      all_products,
                                      count,
                                      _shift.gradient.data(),
                                      _scale.gradient.data(),
                                      images.rows,
                                      _channels,
                                      images.places,
                                      pass.accumulate};
  const bool alone = isAlone(pass);
  const Count of_channel{static_cast<Real>(images.rows * images.places), alone ? nullptr : count};
  const MeanGradients means{all_sums, all_products, inverse, of_channel, pass.training};
  if (alone && grad_in.size() > 0) {
    forEachRow(space, "partita::BatchNorm::gradients_kernel", _channels, images.rows,
               Gradients{parameters, means});
  } else {
    forEachRow(space, "partita::BatchNorm::parameter_gradients_kernel", _channels, images.rows, parameters);
    if (grad_in.size() == 0) return;
    if (pass.training) sumOverRanks(space, pass, sums.all);
    forEachValue(space, "partita::BatchNorm::mean_gradients_kernel", _channels, means);
  }
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    const InputGradient<Stored> body{
        in.as<Stored>(), grad_out.as<Stored>(), mean,      inverse, _scale.values.data(), all_sums,
        all_products,    grad_in.as<Stored>(),  _channels, _places};
    forEachChannelPack(space, "partita::BatchNorm::backward_kernel", rows, _places, _channels, body.aligned(),
                       body);
  });
}

} // namespace partita
