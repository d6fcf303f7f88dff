#pragma once

#include "partita/plan/cost/cluster.hpp"
#include "partita/plan/cost/kernel_shape.hpp"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace partita {

/// Seconds of one pass of a layer.
struct PassTime {
  double forward = 0.0, backward = 0.0;
};

/// How long the kernels of a cluster take. If a type of layer has been measured, its rate is interpolated
/// over the logarithms of rows, inputs, outputs and window. The weight of a measurement is the inverse fourth
/// power of its distance, so a measured shape takes its measured time. Other products have the rate of a
/// large one times n / (n + half_size) for each of their three extents n (Hockney's n_1/2, Parallel
/// Computers, 1981), and other kernels take no time. Measurements are in float: products in another precision
/// are faster or slower than these by the rates of the cluster, other kernels are not.
class KernelTimes {
 public:
  explicit KernelTimes(const Cluster& cluster, Precision precision = Precision::single);

  /// Times of a pass over `samples`. `input_gradient`: is the gradient of the input computed?
  PassTime of(const KernelShape& shape, double samples, bool input_gradient) const;
  /// Multiplies all times.
  void scale(double factor) { _scale *= factor; }

 private:
  using Logarithms = std::array<double, 4>; ///< of rows, inputs, outputs, window
  struct Point {
    Logarithms at{};
    double forward = 0.0, backward = 0.0; ///< work per second
  };
  static Logarithms placeOf(double rows, double inputs, double outputs, double window);
  PassTime measured(const std::vector<Point>& points, const KernelShape& shape, double samples,
                    const Effort& backward) const;

  double secondsOf(const Effort& effort, double rate) const;

  double _flops, _half_size, _scale = 1.0;
  double _product_share = 1.0;                       ///< of the time that a product takes in float
  std::map<std::string, std::vector<Point>> _points; ///< by type of the layer
};

} // namespace partita
