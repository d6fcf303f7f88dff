#include "partita/plan/cost/kernel_times.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

KernelTimes::Logarithms KernelTimes::placeOf(double rows, double inputs, double outputs, double window) {
  const auto logarithm = [](double value) { return std::log2(std::max(1.0, value)); };
  return {logarithm(rows), logarithm(inputs), logarithm(outputs), logarithm(window)};
}

KernelTimes::KernelTimes(const Cluster& cluster, Precision precision)
    : _flops(cluster.flops), _half_size(cluster.half_size) {
  if (const double rate = cluster.knownFlops(precision); rate > 0.0) _product_share = _flops / rate;
  for (const KernelRate& kernel : cluster.kernels)
    _points[kernel.type].push_back({placeOf(kernel.rows, kernel.inputs, kernel.outputs, kernel.window),
                                    kernel.forward, kernel.backward});
}

/// At a rate that was measured in float.
double KernelTimes::secondsOf(const Effort& effort, double rate) const {
  return (effort.total() + (_product_share - 1.0) * effort.flops) / rate;
}

PassTime KernelTimes::measured(const std::vector<Point>& points, const KernelShape& shape, double samples,
                               const Effort& backward) const {
  constexpr double nearest = 1e-6; // squared distance of a measured shape
  const Logarithms at = placeOf(samples * shape.rows, shape.inputs, shape.outputs, shape.window);
  double weights = 0.0, forward_rate = 0.0, backward_rate = 0.0;
  for (const Point& point : points) {
    double distance = nearest;
    for (std::size_t i = 0; i < at.size(); ++i) distance += (at[i] - point.at[i]) * (at[i] - point.at[i]);
    const double weight = 1.0 / (distance * distance);
    weights += weight;
    forward_rate += weight * point.forward;
    backward_rate += weight * point.backward;
  }
  return {samples * secondsOf(shape.forward, forward_rate / weights),
          samples * secondsOf(backward, backward_rate / weights)};
}

PassTime KernelTimes::of(const KernelShape& shape, double samples, bool input_gradient) const {
  const Effort backward = input_gradient ? shape.weights + shape.input_gradient : shape.weights;
  const auto found = _points.find(shape.type);
  PassTime time;
  if (found != _points.end()) {
    time = measured(found->second, shape, samples, backward);
  } else {
    double rate = _flops / _product_share;
    for (const double extent : {samples * shape.rows, shape.window * shape.inputs, shape.outputs})
      rate *= extent / (extent + _half_size);
    if (rate > 0.0) time = {samples * shape.forward.flops / rate, samples * backward.flops / rate};
  }
  return {_scale * time.forward, _scale * time.backward};
}

} // namespace partita
