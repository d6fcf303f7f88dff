#pragma once

#include "partita/core/typed_span.hpp"
#include "partita/plan/window_plan.hpp"

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
};

/// out = W * in. `work`: the scratch of `ConvolutionPlan::workValues` after the copied weights. Returns false
/// and does nothing if the library has no algorithm for the case that is reproducible and whose scratch fits
/// into `work`.
bool convolveForward(const ExecSpace& space, const ConvolveCase& convolution, Real* work, const Real* in,
                     const Real* weight, Real* out);

/// Both gradients, or false as above; a null gradient is not wanted.
bool convolveBackward(const ExecSpace& space, const ConvolveCase& convolution, Real* work, bool accumulate,
                      const Real* in, const Real* weight, const Real* grad, Real* weight_gradient,
                      Real* grad_in);

/// Frees what was kept of convolutions, before the device ends.
void forgetConvolutions();

} // namespace partita::cudnn
