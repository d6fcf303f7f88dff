#pragma once

#include "partita/nn/layer.hpp"

namespace partita {

/// y = act(x W^T + b), W [outputs, inputs], b [outputs]; bias and activation are one kernel behind the
/// product.
class Dense : public Layer {
 public:
  explicit Dense(const LayerPlan& plan) : _plan(plan) {}

  std::int64_t inputs() const override { return _plan.inputs; }
  std::int64_t outputs() const override { return _plan.outputs; }
  std::string name() const override { return _plan.name(); }
  std::vector<ParameterShape> parameters() const override;
  std::int64_t savedValues() const override { return _plan.keptValues() - _plan.outputs; }

  void bind(const Vector& parameters, const Vector& gradients) override;
  void initialise(std::uint64_t seed, Real* values) const override;
  void forward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) override;

 private:
  LayerPlan _plan;
  Matrix _weight, _weight_gradient;
  Vector _bias, _bias_gradient;
};

} // namespace partita
