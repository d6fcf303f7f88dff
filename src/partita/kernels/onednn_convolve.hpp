#pragma once

#include "partita/kernels/convolve_gradients.hpp"
#include "partita/kernels/products.hpp"
#include "partita/plan/window_plan.hpp"

namespace partita::onednn {

/// A convolution of some rows of a batch.
struct ConvolveCase {
  const ConvolutionPlan& plan;
  Precision operands;
  std::int64_t rows;
  const ConvolutionBlock* block = nullptr; ///< of which `plan` is; null: of the whole convolution
  ProductEpilogue epilogue;                ///< of the sums
  bool half = false; ///< values, not weights, are stored in the precision of the operands, 16 bits
};

/// Is oneDNN there, and are its convolutions of floats compiled for this processor?
bool convolvesFloats();

/// Is oneDNN there and faster than columns for batches of `rows`, or for a block of their outputs? The answer
/// follows from the shape and the instructions of the processor.
bool convolves(const ConvolutionPlan& plan, Precision operands, std::int64_t rows,
               const ConvolutionBlock* block = nullptr, bool half = false);

/// out = W * in, or a block of it, all in the layouts of `Convolve`; `work`: `ConvolutionPlan::workValues`
/// long, where the packed weights stay for calls with the same `work` and a null `weight`.
void convolveForward(const ExecSpace& space, const ConvolveCase& convolution, Real* work, const void* in,
                     const Real* weight, void* out);

/// Both gradients; packed weights stay if `weight` is empty.
void convolveBackward(const ExecSpace& space, const ConvolveCase& convolution, Real* work,
                      const ConvolveGradients& gradients);

} // namespace partita::onednn
