#pragma once

#include "partita/nn/layer_chain.hpp"

namespace partita {

/// Layers that count as one: `block` y = body(x), or `residual` y = act(body(x) + shortcut(x)), where an
/// empty shortcut is x itself (He et al., arXiv 1512.03385). With `recompute` only x is kept for the backward
/// pass, which then begins with another forward pass (Chen et al., arXiv 1604.06174). With `Pass::transport`
/// the loss of a sample grows by that weight times half the mean square of body(x), which keeps what a
/// residual layer adds small (Karkar et al., arXiv 2309.17357).
class Group : public PlannedLayer {
 public:
  explicit Group(const LayerPlan& plan);

  void bind(const LayerNumbers& numbers) override;
  bool acceptsHalf() const override { return true; }
  void bindStatistics(const Vector& statistics) override;
  void initialiseStatistics(Real* values) const override;
  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;

 private:
  /// What the layers inside save, and the scratch of a pass.
  struct Memory {
    Tape body, shortcut;
    Real* argument = nullptr; ///< of the activation, if it needs that
    Vector gradients[3];
    Pass pass; ///< for the layers inside
  };
  Memory memoryOf(const Pass& pass, const TypedMatrix& out, const Matrix& saved) const;
  void forwardInside(const ExecSpace& space, Memory& memory, const TypedMatrix& in) const;
  void add(const ExecSpace& space, const Memory& memory, const TypedMatrix& in, const TypedMatrix& out) const;
  void activationGradient(const ExecSpace& space, const Memory& memory, const TypedMatrix& in,
                          const TypedMatrix& out, const TypedMatrix& grad, const TypedMatrix& copy) const;

  bool _residual;
  std::int64_t _widest; ///< activation inside, values per sample
  LayerChain _body, _shortcut;
};

} // namespace partita
