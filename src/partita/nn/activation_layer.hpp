#pragma once

#include "partita/nn/layer.hpp"

namespace partita {

/// y = act(x): the entrance of a stage whose predecessor is matched before its activation.
class ActivationLayer : public Layer {
 public:
  explicit ActivationLayer(const LayerPlan& plan) : _plan(plan) {}

  std::int64_t inputs() const override { return _plan.inputs; }
  std::int64_t outputs() const override { return _plan.outputs; }
  std::string name() const override { return _plan.name(); }

  void forward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) override;

 private:
  LayerPlan _plan;
};

} // namespace partita
