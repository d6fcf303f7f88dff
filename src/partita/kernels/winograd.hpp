#pragma once

#include "partita/kernels/convolve_gradients.hpp"
#include "partita/kernels/products.hpp"
#include "partita/plan/window_plan.hpp"

/// Convolutions with windows of 3x3 or 3x3x3 places on hosts, by Winograd's minimal filtering F(2x2, 3x3)
/// (Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016) and its counterpart for
/// volumes. A tile of 2x2 outputs depends on 4x4 inputs. Both and the weights are transformed, axis by axis,
/// so that 16 products per pair of channels replace 36; for volumes 64 replace 216. All factors of the
/// transforms are 0, 1 and 1/2, which keeps rounding errors nearly as small as those of plain sums. Products
/// of tiles and transformed weights stay in vector registers.
namespace partita::winograd {

/// Is this the way for the convolution? The shape and the build alone decide.
bool convolves(const ConvolutionPlan& plan);

/// out = W * in and the epilogue, all in the layouts of `Convolve`; `work`: `ConvolutionPlan::workValues`.
/// With `block`, only the outputs of this block of `plan` are computed, and written to their places in `out`.
void forward(const ExecSpace& space, const ConvolutionPlan& plan, const ConvolutionBlock* block,
             const Vector& work, const Matrix& in, const Matrix& weight, const Matrix& out,
             const ProductEpilogue& epilogue, const Between& between = {});

/// The gradient of the input: a convolution of `grad` with the weights turned round.
void inputGradient(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work,
                   const ConvolveGradients& gradients);

/// The gradient of the weights.
void weightGradient(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work,
                    const ConvolveGradients& gradients);

} // namespace partita::winograd
