#pragma once

#include "partita/kernels/convolve_gradients.hpp"
#include "partita/kernels/products.hpp"
#include "partita/plan/window_plan.hpp"

/// Convolutions with few outputs on hosts. Their columns would be many times as large as the input, and their
/// products too narrow for a BLAS, so the windows are read where they lie: sums of several windows, or
/// gradients of several weights, and of all outputs stay in vector registers. Padded images are copied with
/// their padding first.
namespace partita::narrow {

/// Are these kernels suitable for the convolution? The shape alone decides.
bool convolves(const ConvolutionPlan& plan);

/// out = W * in and the epilogue, all in the layouts of `Convolve`; `work`: `ConvolutionPlan::workValues`.
void forward(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work, const Matrix& in,
             const Matrix& weight, const Matrix& out, const ProductEpilogue& epilogue);

/// The gradient of the weights.
void weightGradient(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work,
                    const ConvolveGradients& gradients);

} // namespace partita::narrow
