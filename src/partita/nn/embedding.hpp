#pragma once

#include "partita/nn/layer.hpp"
#include "partita/nn/tensors.hpp"

namespace partita {

/// y_t = E[x_t], or E[x_t] + P[t] if the deck says so: maps tokens {positions}, stored as numbers, to vectors
/// {positions, width}. Both tables start as normal numbers of deviation 0.02, as in GPT-2 (Radford et al.,
/// 2019). Tokens have no gradient. A part of a stage has some rows of both tables, and other tokens and
/// positions add nothing to its output; the sum of the outputs of all parts is y.
class Embedding : public PlannedLayer {
 public:
  explicit Embedding(const LayerPlan& plan);

  void bind(const LayerNumbers& numbers) override;
  bool acceptsHalf() const override { return true; }
  void initialise(std::uint64_t seed, const std::string& tensor, const TensorSlice& slice,
                  Real* values) const override;
  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;

 private:
  template <class Stored>
  void addTokenGradients(const ExecSpace& space, const Pass& pass, const Matrix& in,
                         const Stored* grad_out) const;
  template <class Stored>
  void addPositionGradients(const ExecSpace& space, const Pass& pass, std::int64_t rows,
                            std::int64_t row_values, const Stored* grad_out) const;

  IndexRange _tokens, _places; ///< rows of the tables; `_places` is empty without the second one
  std::int64_t _width;
  Weights _table;         ///< [tokens, width]
  SmallTensor _positions; ///< [positions, width], or empty
};

} // namespace partita
