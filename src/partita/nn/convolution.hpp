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
  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;

 private:
  void forwardInBlocks(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                       const Matrix& saved) const;
  static TypedMatrix likeOutput(const Matrix& saved, const TypedMatrix& out);
  void convolve(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& sums,
                const ProductEpilogue& epilogue) const;
  void finish(const ExecSpace& space, const TypedMatrix& out, const TypedMatrix& saved,
              const Real* bias) const;
  void activationGradient(const ExecSpace& space, const Pass& pass, const TypedMatrix& out,
                          const TypedMatrix& saved, const TypedMatrix& grad) const;
  void weightGradientInReal(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                            const TypedMatrix& grad, const Between& between) const;
  void backwardInReal(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                      const TypedMatrix& grad, const TypedMatrix& grad_in) const;

  ConvolutionPlan _c;
  Convolve _convolve;
  Matrix _weight, _weight_gradient; ///< [channels out, channels in / groups x taps]
  RealTensor _bias;
};

} // namespace partita
