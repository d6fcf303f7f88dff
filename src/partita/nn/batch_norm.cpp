#include "partita/nn/batch_norm.hpp"

#include "partita/comm/part_exchange.hpp"
#include "partita/comm/replica_reduce.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/activation.hpp"
#include "partita/nn/batch_norm_kernels.hpp"
#include "partita/nn/norm_kernels.hpp"

#include <algorithm>

namespace partita {

namespace {

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

} // namespace

BatchNorm::BatchNorm(const LayerPlan& plan)
    : PlannedLayer(plan), _channels(plan.in.front()), _places(plan.inputs() / plan.in.front()) {}

void BatchNorm::bind(const LayerNumbers& numbers) {
  LayerTensors tensors(numbers);
  _scale = tensors.real(_channels);
  _shift = tensors.real(_channels);
}

void BatchNorm::bindStatistics(const Vector& statistics) {
  _mean = subvector(statistics, 0, _channels);
  _variance = subvector(statistics, _channels, _channels);
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
  return {pass.work.data(), pass.work.data() + size, subvector(pass.work, 2 * size, 2 * _channels + 1)};
}

bool BatchNorm::isAlone(const Pass& pass) const {
  const bool replicated = _plan.spec.batch_norm.replicas && pass.replicas != nullptr;
  return !replicated && !(_plan.part && _plan.part->by_places);
}

void BatchNorm::sumOverRanks(const ExecSpace& space, const Pass& pass, const Vector& values) const {
  if (_plan.spec.batch_norm.replicas && pass.replicas != nullptr) pass.replicas->sum(space, values);
  if (_plan.part && _plan.part->by_places) pass.parts->sum(space, values);
}

void BatchNorm::measure(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, Real* mean,
                        Real* inverse) {
  const auto epsilon = static_cast<Real>(_plan.spec.batch_norm.epsilon),
             momentum = static_cast<Real>(_plan.spec.batch_norm.momentum);
  if (!pass.training) {
    forEachValue(space, "partita::BatchNorm::take_running_kernel", _channels,
                 batch_norm::TakeRunning{_mean.data(), _variance.data(), mean, inverse, epsilon});
    return;
  }
  const JoinedImages images = joined(in.rows, _places);
  const Sums sums = sumsIn(pass, images.rows);
  Real *squares = sums.all.data(), *sum = squares + _channels, *count = sum + _channels,
       *running_mean = pass.again ? nullptr : _mean.data(),
       *running_variance = pass.again ? nullptr : _variance.data();
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    const ChannelMoments<Stored> body{in.as<Stored>(), sums.first, sums.second, _channels, images.places};
    forEachImage(space, "partita::BatchNorm::moments_kernel", images.rows, images.places, _channels,
                 body.aligned(), body);
  });
  const bool alone = isAlone(pass);
  const batch_norm::Count of_channel{static_cast<Real>(images.rows * images.places), alone ? nullptr : count};
  const batch_norm::SumOfMeans of_means{sums.first, sum, count, images.rows, _channels, images.places};
  const batch_norm::SumOfSquares of_squares{sums.first, sums.second, sum,       of_channel,
                                            squares,    images.rows, _channels, images.places};
  const batch_norm::Conclude conclude{sum,          squares,          of_channel, mean,    inverse,
                                      running_mean, running_variance, epsilon,    momentum};
  if (alone)
    return forEachRow(space, "partita::BatchNorm::measure_kernel", _channels, images.rows,
                      batch_norm::Measure{of_means, of_squares, conclude});
  forEachRow(space, "partita::BatchNorm::sum_of_means_kernel", _channels, images.rows, of_means);
  sumOverRanks(space, pass, subvector(sums.all, _channels, _channels + 1));
  forEachRow(space, "partita::BatchNorm::sum_of_squares_kernel", _channels, images.rows, of_squares);
  sumOverRanks(space, pass, subvector(sums.all, 0, _channels));
  forEachValue(space, "partita::BatchNorm::conclude_kernel", _channels, conclude);
}

void BatchNorm::forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                        const TypedMatrix& out, const Matrix& saved) {
  const Region region(space, "partita::BatchNorm::forward", Phase::elementwise);
  Real *mean = saved.data(), *inverse = mean + _channels;
  measure(space, pass, in, mean, inverse);
  const ChannelStatistics statistics{mean, inverse};
  const Real *scale = _scale.values.data(), *shift = _shift.values.data();
  withTypes(in.precision, _plan.spec, [&](auto act, auto stored) {
    using Stored = decltype(stored);
    const Normalise<decltype(act), Stored> body{act,   in.as<Stored>(),  statistics, scale,
                                                shift, out.as<Stored>(), _channels,  _places};
    forEachChannelPack(space, "partita::BatchNorm::forward_kernel", in.rows, _places, _channels,
                       body.aligned(), body);
  });
}

void BatchNorm::sumGradients(const ExecSpace& space, const TypedMatrix& in, const TypedMatrix& out,
                             const Matrix& saved, const TypedMatrix& grad_out, const Sums& sums) const {
  const JoinedImages images = joined(in.rows, _places);
  const ChannelStatistics statistics{saved.data(), saved.data() + _channels};
  const Real *scale = _scale.values.data(), *shift = _shift.values.data();
  withTypes(in.precision, _plan.spec, [&](auto act, auto stored) {
    using Stored = decltype(stored);
    const GradientSums<decltype(act), Stored> body{
        act,        in.as<Stored>(), out.as<Stored>(), statistics,   scale, shift, grad_out.as<Stored>(),
        sums.first, sums.second,     _channels,        images.places};
    forEachImage(space, "partita::BatchNorm::gradient_sums_kernel", images.rows, images.places, _channels,
                 body.aligned(), body);
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
  sumGradients(space, in, out, saved, grad_out, sums);
  Real *shift = _shift.gradient.data(), *scale = _scale.gradient.data();
  const batch_norm::ParameterGradients parameters{sums.first, sums.second,   all_sums,       all_products,
                                                  count,      shift,         scale,          images.rows,
                                                  _channels,  images.places, pass.accumulate};
  const bool alone = isAlone(pass);
  const batch_norm::Count of_channel{static_cast<Real>(images.rows * images.places), alone ? nullptr : count};
  const batch_norm::MeanGradients means{all_sums, all_products, inverse, of_channel, pass.training};
  if (alone && grad_in.size() > 0) {
    forEachRow(space, "partita::BatchNorm::gradients_kernel", _channels, images.rows,
               batch_norm::Gradients{parameters, means});
  } else {
    forEachRow(space, "partita::BatchNorm::parameter_gradients_kernel", _channels, images.rows, parameters);
    if (grad_in.size() == 0) return;
    if (pass.training) sumOverRanks(space, pass, sums.all);
    forEachValue(space, "partita::BatchNorm::mean_gradients_kernel", _channels, means);
  }
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    const batch_norm::InputGradient<Stored> body{
        in.as<Stored>(), grad_out.as<Stored>(), mean,      inverse, _scale.values.data(), all_sums,
        all_products,    grad_in.as<Stored>(),  _channels, _places};
    forEachChannelPack(space, "partita::BatchNorm::backward_kernel", rows, _places, _channels, body.aligned(),
                       body);
  });
}

} // namespace partita
