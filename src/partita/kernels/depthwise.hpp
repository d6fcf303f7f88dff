#pragma once

#include "partita/kernels/convolve_gradients.hpp"
#include "partita/kernels/products.hpp"
#include "partita/plan/window_plan.hpp"

/// Convolutions on hosts in which each channel has a group of its own. As products they would have a single
/// output, so sums of neighbouring channels are computed together from the windows where they lie.
namespace partita::depthwise {

/// Are these kernels suitable for the convolution? The shape alone decides.
bool convolves(const ConvolutionPlan& plan);

/// out = W * in and the epilogue, all in the layouts of `Convolve`; `work`: `ConvolutionPlan::workValues`.
void forward(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work, const Matrix& in,
             const Matrix& weight, const Matrix& out, const ProductEpilogue& epilogue);

/// Both gradients.
void backward(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work,
              const ConvolveGradients& gradients);

} // namespace partita::depthwise
