#pragma once

#include "partita/nn/layer.hpp"
#include "partita/plan/shape.hpp"

namespace partita {

/// y = act(x): a layer of the deck, or the entrance of a stage whose predecessor is matched before its
/// activation.
class ActivationLayer : public PlannedLayer {
 public:
  using PlannedLayer::PlannedLayer;

  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;
};

/// {extents...} -> {values}: the same numbers as a vector, in the order of the shape.
class Flatten : public PlannedLayer {
 public:
  explicit Flatten(const LayerPlan& plan) : PlannedLayer(plan), _layout(layoutOf(plan.in)) {}

  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;

 private:
  ImageLayout _layout;
};

} // namespace partita
