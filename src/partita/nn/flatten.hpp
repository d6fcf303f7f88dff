#pragma once

#include "partita/nn/layer.hpp"

namespace partita {

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
