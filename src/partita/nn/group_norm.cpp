#include "partita/nn/group_norm.hpp"

#include "partita/core/math.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/activation.hpp"
#include "partita/nn/norm_kernels.hpp"

#include <algorithm>

namespace partita {

namespace {

/// Mean and 1 / deviation of each group of a row, from the mean of each channel and the squares about it
/// (Chan, Golub and LeVeque, 1983).
struct MeasureGroup {
  const Real *mean, *squares; // [rows, channels]
  Real* saved;
  std::int64_t groups, group, places;
  Real epsilon;

  /// An item is one group of one row.
  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, const Row& row) const {
    const Real *middles = mean + item * group, *totals = squares + item * group;
    const Real count = static_cast<Real>(places), channels = static_cast<Real>(group);
    const Real middle = sumOf(row, middles, group) / channels;
    const Real total = row.sum(group, [=](std::int64_t c) {
      const Real apart = middles[c] - middle;
      return totals[c] + count * apart * apart;
    });
    const Real inverse = Real(1) / sqrt(total / (count * channels) + epsilon);
    Real* place = saved + 2 * (item / groups) * groups + item % groups;
    const std::int64_t to_inverse = groups;
    row.once([=]() {
      place[0] = middle;
      place[to_inverse] = inverse;
    });
  }
};

/// Mean and 1 / deviation of the group of each channel of a row.
struct SpreadStatistics {
  const Real* saved;
  Real *mean, *inverse;
  std::int64_t channels, groups, group;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t channel) const {
    const Real* own = saved + 2 * row * groups + channel / group;
    mean[row * channels + channel] = own[0];
    inverse[row * channels + channel] = own[groups];
  }
};

/// With e = scale dJ/dy and h = (x - mean) / deviation: the means of e and of e h over a group, in place of
/// the sums of dJ/dy and of dJ/dy h over each channel.
struct GroupMeans {
  Real *sum, *product;
  const Real* scale;
  std::int64_t groups, group, places;

  /// An item is one group of one row.
  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, const Row& row) const {
    const Real* g = scale + item % groups * group;
    Real *s = sum + item * group, *p = product + item * group;
    const Real share = Real(1) / static_cast<Real>(group * places),
               of_sums = share * row.sum(group, [=](std::int64_t c) { return g[c] * s[c]; }),
               of_products = share * row.sum(group, [=](std::int64_t c) { return g[c] * p[c]; });
    row.each(group, [=](std::int64_t c) {
      s[c] = of_sums;
      p[c] = of_products;
    });
  }
};

/// dJ/dx = (e - mean of e - h mean of e h) / deviation
template <class Stored>
struct GroupInputGradient {
  const Stored *in, *grad;
  const Real *mean, *inverse, *scale, *constant, *slope;
  Stored* grad_in;
  std::int64_t channels, places;

  bool aligned() const { return alignedForPacks(in, grad, mean, inverse, scale, constant, slope, grad_in); }

  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t row, std::int64_t place,
                                         std::int64_t channel) const {
    const std::int64_t i = (row * places + place) * channels + channel, at = row * channels + channel;
    const auto of_grad = P::map([](Real s, Real g, Real c) { return s * g - c; }, P::load(scale + channel),
                                P::load(grad + i), P::load(constant + at));
    P::store(grad_in + i,
             P::map([](Real e, Real x, Real m, Real s, Real one) { return one * (e - (x - m) * (s * one)); },
                    of_grad, P::load(in + i), P::load(mean + at), P::load(slope + at),
                    P::load(inverse + at)));
  }
};

} // namespace

GroupNorm::GroupNorm(const LayerPlan& plan)
    : PlannedLayer(plan), _channels(plan.in.front()), _places(plan.inputs() / plan.in.front()),
      _groups(plan.spec.group_norm.groups), _group(_channels / _groups) {}

void GroupNorm::bind(const LayerNumbers& numbers) {
  LayerTensors tensors(numbers);
  _scale = tensors.real(_channels);
  _shift = tensors.real(_channels);
}

void GroupNorm::initialise(std::uint64_t, const std::string& tensor, const TensorSlice& slice,
                           Real* values) const {
  std::fill_n(values, slice.size(), tensor == "scale" ? Real(1) : Real(0));
}

/// Mean and 1 / deviation for each channel of a row, from those of its group.
ChannelStatistics GroupNorm::spread(const ExecSpace& space, const Matrix& saved, std::int64_t rows,
                                    Real* work) const {
  Real *mean = work, *inverse = work + rows * _channels;
  forEachElement(space, "partita::GroupNorm::spread_kernel", rows, _channels,
                 SpreadStatistics{saved.data(), mean, inverse, _channels, _groups, _group});
  return {mean, inverse, _channels};
}

void GroupNorm::forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                        const TypedMatrix& out, const Matrix& saved) {
  const Region region(space, "partita::GroupNorm::forward", Phase::elementwise);
  const std::int64_t rows = in.rows;
  Real *means = pass.work.data(), *squares = means + rows * _channels;
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    const ChannelMoments<Stored> body{in.as<Stored>(), means, squares, _channels, _places};
    forEachImage(space, "partita::GroupNorm::moments_kernel", rows, _places, _channels, body.aligned(), body);
  });
  forEachRow(space, "partita::GroupNorm::measure_kernel", rows * _groups, _group,
             MeasureGroup{means, squares, saved.data(), _groups, _group, _places,
                          static_cast<Real>(_plan.spec.group_norm.epsilon)});
  const ChannelStatistics statistics = spread(space, saved, rows, means);
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    const Normalise<Identity, Stored> body{
        Identity{},           in.as<Stored>(),  statistics, _scale.values.data(),
        _shift.values.data(), out.as<Stored>(), _channels,  _places};
    forEachChannelPack(space, "partita::GroupNorm::forward_kernel", rows, _places, _channels, body.aligned(),
                       body);
  });
}

void GroupNorm::backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                         const TypedMatrix& out, const Matrix& saved, const TypedMatrix& grad_out,
                         const TypedMatrix& grad_in) {
  const Region region(space, "partita::GroupNorm::backward", Phase::elementwise);
  const std::int64_t rows = in.rows, size = rows * _channels;
  // Scratch, in the order of GroupNormRules::workValues.
  const ChannelStatistics statistics = spread(space, saved, rows, pass.work.data());
  Real *sums = pass.work.data() + 2 * size, *products = sums + size;
  const Real *scale = _scale.values.data(), *shift = _shift.values.data();
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    const GradientSums<Identity, Stored> body{
        Identity{}, in.as<Stored>(), out.as<Stored>(), statistics, scale, shift, grad_out.as<Stored>(),
        sums,       products,        _channels,        _places};
    forEachImage(space, "partita::GroupNorm::gradient_sums_kernel", rows, _places, _channels, body.aligned(),
                 body);
  });
  sumColumns(space, "partita::GroupNorm::scale_gradient", rows, _channels,
             ValuesOf<Real>{products, _channels}, _scale.gradient.data(), pass.accumulate);
  sumColumns(space, "partita::GroupNorm::shift_gradient", rows, _channels, ValuesOf<Real>{sums, _channels},
             _shift.gradient.data(), pass.accumulate);
  if (grad_in.size() == 0) return;
  forEachRow(space, "partita::GroupNorm::group_means_kernel", rows * _groups, _group,
             GroupMeans{sums, products, scale, _groups, _group, _places});
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    const GroupInputGradient<Stored> body{in.as<Stored>(), grad_out.as<Stored>(),
                                          statistics.mean, statistics.inverse,
                                          scale,           sums,
                                          products,        grad_in.as<Stored>(),
                                          _channels,       _places};
    forEachChannelPack(space, "partita::GroupNorm::backward_kernel", rows, _places, _channels, body.aligned(),
                       body);
  });
}

} // namespace partita
