#pragma once

#include "partita/kernels/convolve_gradients.hpp"
#include "partita/kernels/narrow_images.hpp"

/// Gradients of convolutions with few outputs whose own gradients are mostly zeros: after max-pooling, at
/// least three quarters are, and more after ReLU. What is multiplied by zeros is left out.
namespace partita::narrow {

/// Are so many gradients of these rows zero that leaving them out pays off?
bool mostlyZeros(const ExecSpace& space, const ConvolutionPlan& plan, const Matrix& grad);

/// partial [slices, outputs, depth] = the gradients of the weights, one per slice of the lines; if `add`,
/// added to what is there. The last bits may differ from those of sums with the zeros.
void addSparseGradient(const ExecSpace& space, const ConvolutionPlan& plan, const Images& images,
                       const Matrix& grad, bool add, Real* partial);

/// Does `inputGradient` compute the gradient of the input? The shape alone decides.
bool givesInputGradient(const ConvolutionPlan& plan);

/// The gradient of the input, in the layouts of `Convolve`; `work`: `ConvolutionPlan::workValues`.
void inputGradient(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work,
                   const ConvolveGradients& gradients);

} // namespace partita::narrow
