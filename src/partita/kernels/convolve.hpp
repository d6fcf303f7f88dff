#pragma once

#include "partita/kernels/convolve_gradients.hpp"
#include "partita/kernels/products.hpp"
#include "partita/plan/window_plan.hpp"

namespace partita {

/// A convolution of images or volumes and its two gradients, on values [rows, places x channels] and weights
/// [channels out, channels in / groups x taps].
///
/// The portable way gathers what the windows see into columns (Chellapilla, Puri and Simard, 2006),
/// for as many rows of the batch at a time as fit into bounded scratch, so that the work is one
/// matrix product per group. A 1x1 window of stride 1 needs no gathering. On hosts, windows of 3x3 places are
/// computed by Winograd's algorithm (`ConvolutionPlan::winograd`), unless the processor multiplies their
/// 16-bit operands or the gradients of few outputs are mostly zeros. Of the others, oneDNN computes those for
/// which it is available and, as judged by the shape alone, faster; otherwise `narrow::forward` and its
/// gradients do for few outputs, and `depthwise::forward` and its gradients for channels with a group each.
/// On NVIDIA devices, cuDNN does if it is available and has a reproducible algorithm.
class Convolve {
 public:
  /// `operands`: the values and weights are exact in this precision, and may be multiplied as such.
  Convolve(const ConvolutionPlan& plan, Precision operands);

  /// May values of a batch that are stored in the precision of the operands, 16 bits, be given to `forward`
  /// or `backward` as they are? Otherwise, and for blocks, they have to be `Real`, as weights always are.
  bool forwardTakesHalf(const TypedMatrix& in, const TypedMatrix& out) const;
  bool backwardTakesHalf(const TypedMatrix& in, const TypedMatrix& grad, const TypedMatrix& grad_in) const;

  /// The sums of all channels at all places, and the epilogue. `work` has
  /// `ConvolutionPlan::workValues` values, here and in the functions below.
  void forward(const ExecSpace& space, const Vector& work, const TypedMatrix& in, const Matrix& weight,
               const TypedMatrix& out, const ProductEpilogue& epilogue = {}) const;

  /// Writes the sums for a block of the outputs to their places in `out`. `work` needs additional
  /// room for the outputs of `ConvolutionPlan::rowsAtOnce` rows.
  void forwardBlock(const ExecSpace& space, const Vector& work, const Matrix& in, const Matrix& weight,
                    const Matrix& out, const Block& outputs, const Between& between = {}) const;

  /// The gradients of the weights and of the input. For a batch without rows the gradient of the weights is
  /// zero: it is stored, or with `accumulate` nothing is added.
  void backward(const ExecSpace& space, const Vector& work, const ConvolveGradients& gradients) const;

  /// Does the gradient of the weights take less time from `Real` values than from values of 16 bits?
  /// Libraries leave parts of their vectors unused, and multiply the zeros that come out of pooling.
  bool sumsWeightsInReal() const;
  /// The same gradient of the weights, where `sumsWeightsInReal`.
  void weightGradientInReal(const ExecSpace& space, const Vector& work,
                            const ConvolveGradients& gradients) const;

 private:
  /// Weights and their gradient in the order of the columns, and the rest of the scratch.
  struct Scratch {
    Matrix weight, weight_gradient;
    Real* columns;
  };
  Scratch scratchIn(const Vector& work, const Matrix& weight, const Matrix& weight_gradient) const;
  bool usesWinograd() const;
  bool copiesWeights() const { return _c.copiedWeights() > 0; }
  /// A product adds bias and ReLU itself, while cuDNN would need another kernel for them.
  bool isOneProduct() const { return _c.pointwise() && _c.groups == 1; }
  Matrix packed(const ExecSpace& space, const Scratch& scratch, const Matrix& weight) const;
  Matrix columnsOf(const ExecSpace& space, const WindowPlan& windows, const Matrix& in, Real* columns) const;
  void addProducts(const ExecSpace& space, const Matrix& columns, const Matrix& weight, const Matrix& out,
                   const ProductEpilogue& epilogue) const;
  void blockInScratch(const ExecSpace& space, const Vector& work, const Matrix& in, const Matrix& weight,
                      const Matrix& out, const ConvolutionBlock& block, const Between& between) const;
  struct HalfScratch;
  HalfScratch halfScratchIn(const Vector& work, std::int64_t rows) const;
  void forwardHalf(const ExecSpace& space, const Vector& work, const TypedMatrix& in, const Matrix& weight,
                   const TypedMatrix& out, const ProductEpilogue& epilogue) const;
  void backwardHalf(const ExecSpace& space, const Vector& work, const ConvolveGradients& gradients) const;
  void forwardPortable(const ExecSpace& space, const Vector& work, const Matrix& in, const Matrix& weight,
                       const Matrix& out, const ProductEpilogue& epilogue) const;
  void backwardPortable(const ExecSpace& space, const Vector& work, ConvolveGradients gradients) const;
  void backwardByWinograd(const ExecSpace& space, const Vector& work,
                          const ConvolveGradients& gradients) const;
  void backwardByColumns(const ExecSpace& space, const Vector& work,
                         const ConvolveGradients& gradients) const;
  void addWeightGradient(const ExecSpace& space, Real* room, const ConvolveGradients& gradients) const;
  void inputGradient(const ExecSpace& space, Real* room, const ConvolveGradients& gradients) const;
  TypedMatrix ofGroup(const Matrix& values, std::int64_t group) const;
  Matrix weightsOfGroup(const Matrix& weight, std::int64_t group) const;

  ConvolutionPlan _c;
  Precision _operands;
};

/// What computes convolutions of many channels that need no kernels of this room: "cuDNN 9.19.0",
/// "oneDNN 2.6.3" or "Kokkos kernels".
std::string convolutionPath();

} // namespace partita
