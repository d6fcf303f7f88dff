#pragma once

#include "partita/nn/layer.hpp"
#include "partita/nn/tensors.hpp"

namespace partita {

/// y = act(x W^T + b), W [units, inputs], b [units]; bias and activation belong to the product, or are one
/// kernel after it. Where the derivative needs the argument, that kernel keeps the derivative. Each position
/// of a sequence [positions, width] is a row of its own, with W [units, width]. If the layer is tied, W is
/// the table of the embedding, which adds its own gradient afterwards. The first layer of a network leaves
/// out the zeros of batches that are mostly zeros.
class Dense : public PlannedLayer {
 public:
  explicit Dense(const LayerPlan& plan);

  void bind(const LayerNumbers& numbers) override;
  bool acceptsHalf() const override { return true; }
  bool roundsGradient(bool accumulate) const override;
  bool keepsGradient() const override { return _plan.spec.activation == Activation::identity && !_plan.part; }
  void initialise(std::uint64_t seed, const std::string& tensor, const TensorSlice& slice,
                  Real* values) const override;
  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;

 private:
  bool takesSparse(const ExecSpace& space, const TypedMatrix& in) const;
  void forwardHalf(const ExecSpace& space, const TypedMatrix& in, const TypedMatrix& out,
                   const TypedMatrix& saved) const;
  void activate(const ExecSpace& space, const TypedMatrix& out, const TypedMatrix& saved,
                const Real* bias) const;
  void activationGradient(const ExecSpace& space, const Pass& pass, const TypedMatrix& out,
                          const TypedMatrix& saved, const TypedMatrix& grad, bool sums) const;
  bool sumsInProduct(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                     const TypedMatrix& grad_in) const;

  std::int64_t _units, _fan_in;
  Weights _weights;
  SmallTensor _bias;
};

} // namespace partita
