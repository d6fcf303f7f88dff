#pragma once

#include "partita/nn/layer.hpp"
#include "partita/plan/window_plan.hpp"

namespace partita {

/// The largest value of each window, channel by channel; the first one if several are equal. `saved` has its
/// place.
class MaxPool : public PlannedLayer {
 public:
  explicit MaxPool(const LayerPlan& plan) : PlannedLayer(plan), _windows(poolingWindows(plan)) {}

  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;

 private:
  WindowPlan _windows;
};

/// The mean of each window, channel by channel; padding does not count.
class AveragePool : public PlannedLayer {
 public:
  explicit AveragePool(const LayerPlan& plan) : PlannedLayer(plan), _windows(poolingWindows(plan)) {}

  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;

 private:
  WindowPlan _windows;
};

/// The mean of each channel: {channels, places...} -> {channels}.
class GlobalAveragePool : public PlannedLayer {
 public:
  using PlannedLayer::PlannedLayer;

  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;
};

} // namespace partita
