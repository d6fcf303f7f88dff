#pragma once

#include "partita/kernels/convolve_gradients.hpp"
#include "partita/plan/window_plan.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>

namespace partita::cudnn {

/// "9.19.0", or empty if this build is without cuDNN.
std::string version();

/// A convolution of a batch, in the layout of `Convolve`; weights have the order of columns, see
/// `packWeights`.
struct ConvolveCase {
  const ConvolutionPlan& plan;
  Precision operands;
  std::int64_t rows;
  bool half = false; ///< values, weights and gradients are stored in the precision of the operands, 16 bits

  Precision stored() const { return half ? operands : Precision::single; }
  /// Scratch for the copied weights and their gradient, which come first, as `Real`.
  std::int64_t weightValues() const { return half ? 2 * halfWeightValues() : 2 * plan.copiedWeights(); }
  /// The same for 16-bit weights alone: they, and what follows them, begin at multiples of 64 bytes.
  std::int64_t halfWeightValues() const {
    return (plan.out_channels * plan.depth() + 2 * packed_alignment - 1) / (2 * packed_alignment) *
           packed_alignment;
  }
};

/// Are there algorithms, as below, for values of 16 bits that begin at multiples of `value_alignment` bytes?
/// For the gradients, `of_input` says whether that of the input is wanted too.
bool forwardTakesHalf(const ConvolutionPlan& plan, Precision operands, std::int64_t rows);
bool backwardTakesHalf(const ConvolutionPlan& plan, Precision operands, std::int64_t rows, bool of_input);
constexpr std::int64_t value_alignment = 16;

/// Do all of these values begin at such places?
inline bool aligned(std::initializer_list<const void*> values) {
  return std::all_of(values.begin(), values.end(), [](const void* data) {
    return reinterpret_cast<std::uintptr_t>(data) % value_alignment == 0;
  });
}

/// out = W * in. `work`: the scratch of `ConvolutionPlan::workValues` after `ConvolveCase::weightValues`.
/// Returns false and does nothing if the library has no algorithm for the case that is reproducible and whose
/// scratch fits into `work`.
bool convolveForward(const ExecSpace& space, const ConvolveCase& convolution, Real* work, const void* in,
                     const void* weight, void* out);

/// Both gradients, or false as above. 16-bit gradients cannot be accumulated.
bool convolveBackward(const ExecSpace& space, const ConvolveCase& convolution, Real* work,
                      const ConvolveGradients& gradients);

/// Frees what is cached for convolutions. Called before the device is shut down.
void forgetConvolutions();

} // namespace partita::cudnn
