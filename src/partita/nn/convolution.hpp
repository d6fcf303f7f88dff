#pragma once

#include "partita/nn/layer.hpp"
#include "partita/nn/tensors.hpp"
#include "partita/plan/window_plan.hpp"

namespace partita {

/// y = act(W * x + b) of images {channels, rows, columns} and volumes {channels, depth, rows, columns}; W
/// {channels out, channels in / groups, extents of the window}, b {channels out}. What the windows see is
/// gathered into columns (Chellapilla, Puri and Simard, 2006), for as many rows of the batch at a time as fit
/// into bounded scratch, so that the work is one matrix product per group. A 1x1 window of stride 1 needs no
/// gathering.
class Convolution : public PlannedLayer {
 public:
  explicit Convolution(const LayerPlan& plan) : PlannedLayer(plan), _c(plan) {}

  void bind(const LayerNumbers& numbers) override;
  void initialise(std::uint64_t seed, const std::string& tensor, const TensorSlice& slice,
                  Real* values) const override;
  void forward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) override;

 private:
  /// Some rows of the batch, and their scratch.
  struct Part {
    std::int64_t first, rows;
    Matrix columns;  ///< [channels in x taps, rows x places]
    Matrix products; ///< [channels out, rows x places]
  };
  Part partOf(const Pass& pass, std::int64_t first, std::int64_t rows, const Matrix& in,
              const Matrix& out) const;
  Matrix groupRows(const Matrix& matrix, std::int64_t group) const;
  void finish(const ExecSpace& space, const Part& part, const Matrix& out, const Matrix& saved) const;
  void activationGradient(const ExecSpace& space, const Pass& pass, const Matrix& out, const Matrix& saved,
                          const Matrix& grad) const;

  ConvolutionPlan _c;
  Matrix _weight, _weight_gradient; ///< [channels out, channels in / groups x taps]
  RealTensor _bias;
};

} // namespace partita
