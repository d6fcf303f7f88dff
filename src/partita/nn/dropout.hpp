#pragma once

#include "partita/nn/layer.hpp"

namespace partita {

/// y = x m / (1 - rate), where m is 0 with probability `rate` and else 1 (Srivastava et al., JMLR 2014); y =
/// x outside training. m is a function of (seed, step, row of the whole batch, layer, value), so that it is
/// the same on any grid and in the backward pass, for which nothing is kept. `rate` counts in steps of 2^-16.
class Dropout : public PlannedLayer {
 public:
  using PlannedLayer::PlannedLayer;

  void forward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) override;

 private:
  void mask(const ExecSpace& space, const Pass& pass, const Matrix& from, const Matrix& to) const;
};

} // namespace partita
