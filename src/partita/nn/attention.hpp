#pragma once

#include "partita/nn/layer.hpp"
#include "partita/nn/tensors.hpp"

namespace partita {

struct AttentionShape;

/// Causal multi-head self-attention of a sequence {positions, width}: [q k v] = x Wi^T + bi, per head o =
/// softmax(q k^T / sqrt(head width)) v over the positions up to the query's own, y = o Wo^T + bo (Vaswani et
/// al., arXiv 1706.03762). As in FlashAttention-2 (Dao, arXiv 2307.08691), scores are computed tile by tile
/// with a running maximum and sum, and recomputed in the backward pass: no matrix of positions x positions is
/// ever stored. Saved per sample: q, k, v [positions, 3 width], o [positions, width], and the logarithm of
/// the sum per head and position [heads, positions]. A part of a stage has some of the heads, with their rows
/// of Wi and columns of Wo; the sum of the outputs of all parts is y.
class Attention : public PlannedLayer {
 public:
  explicit Attention(const LayerPlan& plan);

  void bind(const LayerNumbers& numbers) override;
  bool acceptsHalf() const override { return true; }
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
