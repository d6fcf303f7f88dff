#pragma once

#include "partita/nn/layer.hpp"
#include "partita/nn/tensors.hpp"

namespace partita {

/// y = act(scale (x - mean) / sqrt(variance + epsilon) + shift) per channel of an image or a volume, or per
/// value of a vector (Ioffe and Szegedy, arXiv 1502.03167). In training, mean and variance are those of this
/// replica's share of the batch, or with `replicas` of the whole batch, over the positions of all parts. The
/// running mean and variance (statistics "mean" and "variance") follow them and are used outside training.
class BatchNorm : public PlannedLayer {
 public:
  explicit BatchNorm(const LayerPlan& plan);

  void bind(const LayerNumbers& numbers) override;
  void bindStatistics(const Vector& statistics) override;
  void initialise(std::uint64_t seed, const std::string& tensor, const TensorSlice& slice,
                  Real* values) const override;
  void initialiseStatistics(Real* values) const override;
  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;
  bool keepsGradient() const override { return _plan.spec.activation == Activation::identity && !_plan.part; }

 private:
  /// Scratch, in the order of BatchNormRules::workValues.
  struct Sums {
    Real *first, *second; ///< per channel of a row [rows, channels]
    Vector all;           ///< of the batch: two values per channel, and the number of values in a channel
  };
  Sums sumsIn(const Pass& pass, std::int64_t rows) const;
  /// mean, inverse [channels]: the mean and 1 / sqrt(variance + epsilon) of this pass.
  void measure(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, Real* mean, Real* inverse);
  /// Per image and channel, the sums of the gradients, and of their products with the normalised values.
  void sumGradients(const ExecSpace& space, const TypedMatrix& in, const TypedMatrix& out,
                    const Matrix& saved, const TypedMatrix& grad_out, const Sums& sums) const;
  bool isAlone(const Pass& pass) const; ///< are the statistics those of this rank's values alone?
  void sumOverRanks(const ExecSpace& space, const Pass& pass, const Vector& values) const;

  std::int64_t _channels, _places;
  RealTensor _scale, _shift;
  Vector _mean, _variance; ///< running
};

} // namespace partita
