#pragma once

#include "partita/comm/part_exchange.hpp"
#include "partita/nn/layer.hpp"

namespace partita {

/// A step between two layers of a stage that ranks share: they exchange ranges of an activation, and of its
/// gradient, as its ExchangePlan says. Needs `Pass::parts`.
class ExchangeLayer : public PlannedLayer {
 public:
  using PlannedLayer::PlannedLayer;

  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;
  /// The same in two calls, between which the layer after this one may compute. They use the end of
  /// the scratch. In the forward pass only halos are exchanged like this.
  void halo(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
            Travel travel) const;
  void backward(const ExecSpace& space, const Pass& pass, const Matrix& grad_out, const Matrix& grad_in,
                Travel travel) const;
};

} // namespace partita
