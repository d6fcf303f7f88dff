#pragma once

#include "partita/kernels/convolve.hpp"
#include "partita/nn/layer.hpp"
#include "partita/nn/tensors.hpp"
#include "partita/plan/window_plan.hpp"

namespace partita {

/// y = act(W * x + b) of images {channels, rows, columns} and volumes {channels, depth, rows, columns}; W
/// {channels out, channels in / groups, extents of the window}, b {channels out}; see `Convolve`.
class Convolution : public PlannedLayer {
 public:
  explicit Convolution(const LayerPlan& plan)
      : PlannedLayer(plan), _c(plan), _convolve(_c, Precision::single) {}

  void bind(const LayerNumbers& numbers) override;
  void initialise(std::uint64_t seed, const std::string& tensor, const TensorSlice& slice,
                  Real* values) const override;
  void forward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) override;

 private:
  void forwardInBlocks(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                       const Matrix& saved) const;
  void finish(const ExecSpace& space, const Matrix& out, const Matrix& saved) const;
  void activationGradient(const ExecSpace& space, const Pass& pass, const Matrix& out, const Matrix& saved,
                          const Matrix& grad) const;

  ConvolutionPlan _c;
  Convolve _convolve;
  Matrix _weight, _weight_gradient; ///< [channels out, channels in / groups x taps]
  RealTensor _bias;
};

} // namespace partita
