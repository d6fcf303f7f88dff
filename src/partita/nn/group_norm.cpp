#include "partita/nn/group_norm.hpp"

#include "partita/core/math.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/activation.hpp"
#include "partita/nn/norm_kernels.hpp"

#include <algorithm>

namespace partita {

namespace {

/// Mean and 1 / deviation of each group of a row, `size` contiguous values.
struct MeasureGroup {
  const Real* in;
  Real* saved;
  std::int64_t groups, size;
  Real epsilon;

  /// An item is one group of one row.
  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, const Row& row) const {
    const Real* x = in + item * size;
    const Real share = Real(1) / static_cast<Real>(size), mean = share * sumOf(row, x, size);
    const Real inverse = Real(1) / sqrt(share * squaresAbout(row, x, size, mean) + epsilon);
    Real* place = saved + 2 * (item / groups) * groups + item % groups;
    const std::int64_t to_inverse = groups;
    row.once([=]() {
      place[0] = mean;
      place[to_inverse] = inverse;
    });
  }
};

/// One value per channel of a row.
struct OfChannel {
  const Real* values;
  std::int64_t channels;
  KOKKOS_INLINE_FUNCTION Real operator()(std::int64_t row, std::int64_t channel) const {
    return values[row * channels + channel];
  }
};

/// With e = scale dJ/dy and h = (x - mean) / deviation: the means of e and of e h over a group, from the sums
/// of dJ/dy and of dJ/dy h over each channel.
struct GroupMeans {
  const Real *sum, *product, *scale;
  Real *constant, *slope;
  std::int64_t groups, group, places;

  /// An item is one group of one row.
  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, const Row& row) const {
    const Real *g = scale + item % groups * group, *s = sum + item * group, *p = product + item * group;
    const Real share = Real(1) / static_cast<Real>(group * places),
               of_sums = share * row.sum(group, [=](std::int64_t c) { return g[c] * s[c]; }),
               of_products = share * row.sum(group, [=](std::int64_t c) { return g[c] * p[c]; });
    Real *to_constant = constant + item, *to_slope = slope + item;
    row.once([=]() {
      *to_constant = of_sums;
      *to_slope = of_products;
    });
  }
};

/// dJ/dx = (e - mean of e - h mean of e h) / deviation
struct GroupInputGradient {
  const Real *in, *grad;
  ChannelStatistics statistics;
  const Real *scale, *constant, *slope;
  Real* grad_in;
  std::int64_t channels, places;

  /// An item is one channel of one row; it runs over places.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t begin, std::int64_t end) const {
    const std::int64_t channel = item % channels, place = statistics.place(item / channels, channel),
                       group = item / statistics.group;
    const Real middle = statistics.mean[place], inverse = statistics.inverse[place], g = scale[channel],
               average = constant[group], along = slope[group] * inverse;
    const Real *x = in + item * places, *dy = grad + item * places;
    Real* dx = grad_in + item * places;
    PARTITA_INDEPENDENT
    for (std::int64_t i = begin; i < end; ++i)
      dx[i] = inverse * (g * dy[i] - average - (x[i] - middle) * along);
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

void GroupNorm::forward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix& out,
                        const Matrix& saved) {
  const Region region(space, "partita::GroupNorm::forward", Phase::elementwise);
  const std::int64_t rows = in.extent(0);
  forEachRow(space, "partita::GroupNorm::measure_kernel", rows * _groups, _group * _places,
             MeasureGroup{in.data(), saved.data(), _groups, _group * _places,
                          static_cast<Real>(_plan.spec.group_norm.epsilon)});
  const ChannelStatistics statistics{saved.data(), saved.data() + _groups, 2 * _groups, _group};
  forEachRun(space, "partita::GroupNorm::forward_kernel", rows * _channels, _places,
             Normalise<Identity>{Identity{}, in.data(), statistics, _scale.values.data(),
                                 _shift.values.data(), out.data(), _channels, _places});
}

void GroupNorm::backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                         const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) {
  const Region region(space, "partita::GroupNorm::backward", Phase::elementwise);
  const std::int64_t rows = in.extent(0);
  const ChannelStatistics statistics{saved.data(), saved.data() + _groups, 2 * _groups, _group};
  // Scratch, in the order of GroupNormRules::workValues.
  Real *sums = pass.work.data(), *products = sums + rows * _channels,
       *constants = products + rows * _channels, *slopes = constants + rows * _groups;
  forEachRow(space, "partita::GroupNorm::gradient_sums_kernel", rows * _channels, _places,
             GradientSums<Identity>{Identity{}, in.data(), out.data(), statistics, _scale.values.data(),
                                    _shift.values.data(), grad_out.data(), sums, products, _channels,
                                    _places});
  sumColumns(space, "partita::GroupNorm::scale_gradient", rows, _channels, OfChannel{products, _channels},
             _scale.gradient.data(), pass.accumulate);
  sumColumns(space, "partita::GroupNorm::shift_gradient", rows, _channels, OfChannel{sums, _channels},
             _shift.gradient.data(), pass.accumulate);
  if (grad_in.size() == 0) return;
  forEachRow(space, "partita::GroupNorm::group_means_kernel", rows * _groups, _group,
             GroupMeans{sums, products, _scale.values.data(), constants, slopes, _groups, _group, _places});
  forEachRun(space, "partita::GroupNorm::backward_kernel", rows * _channels, _places,
             GroupInputGradient{in.data(), grad_out.data(), statistics, _scale.values.data(), constants,
                                slopes, grad_in.data(), _channels, _places});
}

} // namespace partita
