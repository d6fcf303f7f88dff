#pragma once

#include "partita/nn/layer.hpp"

namespace partita {

/// y = act(x): a layer of the deck, or the entrance of a stage whose predecessor is matched before its
/// activation.
class ActivationLayer : public PlannedLayer {
 public:
  using PlannedLayer::PlannedLayer;

  void forward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) override;
};

/// {extents...} -> {values}: another shape of the same numbers.
class Flatten : public PlannedLayer {
 public:
  using PlannedLayer::PlannedLayer;

  void forward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) override;
};

} // namespace partita
