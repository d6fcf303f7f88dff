#pragma once

#include "partita/nn/layer_chain.hpp"
#include "partita/plan/stage_plan.hpp"

namespace partita {

/// Penalises information about its input that a stage's output has lost, so that a stage trained for its own
/// labels keeps what later stages could use: J = w/2 times the mean square of D(out) - in, where D is a
/// linear layer that learns with the stage, and `in` is averaged to the positions of the output (after Wang
/// et al., InfoPro, arXiv 2101.10832).
class Reconstruction {
 public:
  /// For a plan with a decoder and batches of up to `capacity` rows.
  Reconstruction(const StagePlan& plan, std::int64_t capacity);

  void bind(const LayerNumbers& numbers) { _decoder.bind(numbers); }
  /// Computes the gradients of D and adds dJ/dout to `grad`. `weight`: w times the weight of a sample.
  void addGradient(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const Matrix& out,
                   const DeviceFactor& weight, const Matrix& grad, const LayerChain::GradientReady& ready);

 private:
  Matrix target(const ExecSpace& space, const Pass& pass, const TypedMatrix& stored) const;

  LayerChain _decoder;
  std::unique_ptr<Layer> _average; ///< null: the input itself is reconstructed
  ImageLayout _layout;             ///< in which the target lies, if D(out) is a vector
  Tape _tape;
  Matrix _target, _grad_out;
};

} // namespace partita
