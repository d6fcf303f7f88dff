#pragma once

#include "partita/core/typed_span.hpp"
#include "partita/plan/window_plan.hpp"

#include <functional>

namespace partita {

/// Sums of a convolution for some rows of a batch, without bias: the value of a channel at a place of row
/// `first` + r is data[r * row_stride + channel * channel_stride + place].
struct ConvolveSums {
  Real* data;
  std::int64_t first, rows, row_stride, channel_stride;
};

/// A convolution of images or volumes and its two gradients, on values [rows, channels x places] and weights
/// [channels out, channels in / groups x taps].
///
/// The portable way gathers what the windows see into columns (Chellapilla, Puri and Simard, 2006), for as
/// many rows of the batch at a time as fit into bounded scratch, so that the work is one matrix product per
/// group. A 1x1 window of stride 1 needs no gathering. On hosts, where oneDNN is there and faster, which
/// follows from the shape alone, it computes the same after copying some rows at a time into its format. On
/// NVIDIA devices cuDNN does, where it is there and has a reproducible algorithm.
class Convolve {
 public:
  /// `operands`: the values and weights are exact in this precision, and may be multiplied as such.
  Convolve(const ConvolutionPlan& plan, Precision operands);

  /// Calls finish(sums) for some rows after the other, which writes these rows of `out`; the sums may lie
  /// there already. `work`: `ConvolutionPlan::workValues` long, also below.
  void forward(const ExecSpace& space, const Vector& work, const Matrix& in, const Matrix& weight,
               const Matrix& out, const std::function<void(const ConvolveSums&)>& finish) const;

  /// Writes the sums for a block of the outputs to their places in `out`. `work`: as long as the outputs
  /// of a row more. `between` is called after some rows each.
  void forwardBlock(const ExecSpace& space, const Vector& work, const Matrix& in, const Matrix& weight,
                    const Matrix& out, const Block& outputs, const std::function<void()>& between = {}) const;

  /// The gradients of the weights (with `accumulate` added to what is there) and of the input, from `grad`,
  /// that of the sums. One of them may be empty: then it is not computed. `between` is called after some rows
  /// each.
  void backward(const ExecSpace& space, const Vector& work, bool accumulate, const Matrix& in,
                const Matrix& weight, const Matrix& grad, const Matrix& weight_gradient,
                const Matrix& grad_in, const std::function<void()>& between = {}) const;

 private:
  /// Some rows of the batch, and their scratch.
  struct Part {
    std::int64_t first, rows;
    Matrix columns;  ///< [channels in x taps, rows x places]
    Matrix products; ///< [channels out, rows x places]
  };
  Part partOf(const Vector& work, std::int64_t first, std::int64_t rows, const Matrix& in,
              const Matrix& out) const;
  void blockByColumns(const ExecSpace& space, const Vector& work, const Matrix& in, const Matrix& weight,
                      const Matrix& out, const ConvolutionBlock& block,
                      const std::function<void()>& between) const;
  Matrix groupRows(const Matrix& matrix, std::int64_t group) const;
  void forwardByColumns(const ExecSpace& space, const Vector& work, const Matrix& in, const Matrix& weight,
                        const Matrix& out, const std::function<void(const ConvolveSums&)>& finish) const;
  void backwardByColumns(const ExecSpace& space, const Vector& work, bool accumulate, const Matrix& in,
                         const Matrix& weight, const Matrix& grad, const Matrix& weight_gradient,
                         const Matrix& grad_in, const std::function<void()>& between) const;
  void addWeightGradient(const ExecSpace& space, const Part& part, bool keep, const Matrix& in,
                         const Matrix& weight_gradient) const;
  void inputGradient(const ExecSpace& space, const Part& part, const Matrix& weight,
                     const Matrix& grad_in) const;

  ConvolutionPlan _c;
  Precision _operands;
};

} // namespace partita
