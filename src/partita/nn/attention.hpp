#pragma once

#include "partita/kernels/attend.hpp"
#include "partita/nn/layer.hpp"
#include "partita/nn/tensors.hpp"

namespace partita {

/// Causal multi-head self-attention of a sequence {positions, width}: [q k v] = x Wi^T + bi, the heads of
/// kernels/attend.hpp, y = o Wo^T + bo. Saved per sample: q, k, v [positions, 3 width], o [positions, width],
/// and the logarithm of the sum per head and position [heads, positions]. A part of a stage has some of the
/// heads, with their rows of Wi and columns of Wo; the sum of the outputs of all parts is y.
class Attention : public PlannedLayer {
 public:
  explicit Attention(const LayerPlan& plan);

  void bind(const LayerNumbers& numbers) override;
  bool acceptsHalf() const override { return true; }
  bool keepsGradient() const override { return !_plan.part; }
  void initialise(std::uint64_t seed, const std::string& tensor, const TensorSlice& slice,
                  Real* values) const override;
  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;

 private:
  /// A matrix [outputs, inputs] and a bias [outputs], with their gradients.
  struct Projection {
    Weights weights;
    SmallTensor bias; ///< or empty
  };
  static void project(const ExecSpace& space, const Projection& projection, const TypedMatrix& in,
                      const TypedMatrix& out);
  static void addGradients(const ExecSpace& space, const Projection& projection, bool accumulate,
                           const TypedMatrix& in, const TypedMatrix& grad_out);
  AttentionShape shapeOf(const TypedMatrix& in) const;

  std::int64_t _width, _heads, _inner; ///< `_inner`: the width of all heads together
  Projection _inward, _outward;
};

} // namespace partita
