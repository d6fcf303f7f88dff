#pragma once

#include "partita/nn/layer.hpp"
#include "partita/nn/tensors.hpp"

namespace partita {

/// Normalises the values x of each position, the last extent of a sample: y = g (x - mean) / sqrt(variance +
/// epsilon) + b (layer-norm: Ba, Kiros and Hinton, arXiv 1607.06450), or y = g x / sqrt(mean square +
/// epsilon) (rms-norm: Zhang and Sennrich, arXiv 1910.07467). Starts with g = 1, b = 0. Saved per position:
/// one over the root, and the mean.
class Norm : public PlannedLayer {
 public:
  enum class Centre { mean, zero }; ///< layer-norm, rms-norm
  Norm(const LayerPlan& plan, Centre centre);

  void bind(const LayerNumbers& numbers) override;
  bool acceptsHalf() const override { return true; }
  void initialise(std::uint64_t seed, const std::string& tensor, const TensorSlice& slice,
                  Real* values) const override;
  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;

 private:
  template <class Parameter>
  void addUpGradients(const ExecSpace& space, const Pass& pass, Real* sums) const;

  bool _centred; ///< layer-norm
  std::int64_t _width;
  StoredTensor _factor, _shift;
};

} // namespace partita
