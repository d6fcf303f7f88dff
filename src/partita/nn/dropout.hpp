#pragma once

#include "partita/nn/layer.hpp"
#include "partita/plan/shape.hpp"

#include <optional>

namespace partita {

/// y = x m / (1 - rate), where m is 0 with probability `rate` and 1 otherwise (Srivastava et al., JMLR 2014);
/// y = x outside training. m is a function of (seed, step, row of the whole batch, layer, value), so that it
/// is the same on any grid and in the backward pass, and nothing is saved. `rate` is rounded to steps of
/// 2^-16.
class Dropout : public PlannedLayer {
 public:
  /// Values of a sample that are contiguous both in the whole and in a slice, `length` each: three nested
  /// series of them, of which the last one changes fastest.
  struct Runs {
    std::int64_t first = 0, length = 0; ///< place of the first one in the whole; values of each
    std::int64_t counts[3] = {1, 1, 1}, strides[3] = {0, 0, 0};
    KOKKOS_INLINE_FUNCTION std::int64_t begin(std::int64_t run) const {
      return first + run / (counts[1] * counts[2]) * strides[0] + run / counts[2] % counts[1] * strides[1] +
             run % counts[2] * strides[2];
    }
  };

  explicit Dropout(const LayerPlan& plan) : PlannedLayer(plan), _layout(layoutOf(plan.in)) {}
  /// A layer that sees a slice of each sample: its mask is the matching part of the whole mask.
  Dropout(const LayerPlan& plan, const TensorSlice& slice);

  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;

 private:
  void mask(const ExecSpace& space, const Pass& pass, const TypedMatrix& from, const TypedMatrix& to) const;

  std::optional<Runs> _runs; ///< of a slice
  ImageLayout _layout;       ///< of the sample, or the slice
};

} // namespace partita
