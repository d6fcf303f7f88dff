#pragma once

#include "partita/plan/layer_plan.hpp"

namespace partita {

/// FLOPs of training any run of consecutive layers, each in constant time: what a search over cuts asks for
/// many times.
class TrainingFlops {
 public:
  explicit TrainingFlops(const std::vector<LayerPlan>& layers);

  /// A sample through layers [first, last) trained alone: nothing in front of the first layer with parameters
  /// wants a gradient.
  double of(std::int64_t first, std::int64_t last) const;
  /// The same where the layers in front of `first` want one.
  double withInputGradient(std::int64_t first, std::int64_t last) const;

 private:
  std::vector<double> _own;                ///< sums of forward and weight gradients over layers [0, i)
  std::vector<double> _input;              ///< the same of input gradients
  std::vector<std::int64_t> _next_trained; ///< the first layer with parameters from i on
};

} // namespace partita
