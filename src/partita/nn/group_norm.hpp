#pragma once

#include "partita/nn/layer.hpp"
#include "partita/nn/norm_kernels.hpp"
#include "partita/nn/tensors.hpp"

namespace partita {

/// y = scale (x - mean) / sqrt(variance + epsilon) + shift, scale and shift one per channel, mean and
/// variance over a group of neighbouring channels of one sample: of an image, a volume, or the values of a
/// vector (Wu and He, arXiv 1803.08494). Starts with scale = 1, shift = 0. The same in training and
/// evaluation. Saved per sample: mean and 1 / deviation of each group.
class GroupNorm : public PlannedLayer {
 public:
  explicit GroupNorm(const LayerPlan& plan);

  void bind(const LayerNumbers& numbers) override;
  void initialise(std::uint64_t seed, const std::string& tensor, const TensorSlice& slice,
                  Real* values) const override;
  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;

 private:
  ChannelStatistics spread(const ExecSpace& space, const Matrix& saved, std::int64_t rows, Real* work) const;

  std::int64_t _channels, _places, _groups, _group; ///< places of a channel, channels of a group
  RealTensor _scale, _shift;
};

} // namespace partita
