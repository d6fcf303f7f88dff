#pragma once

#include "partita/core/types.hpp"

namespace partita {

/// What a rank computes of a batch; the engine decides when, and moves what crosses ranks. Microbatches are
/// counted from 0 in each batch; forward passes come in this order, and so do backward passes.
class PipelineWork {
 public:
  virtual ~PipelineWork() = default;

  /// Samples in microbatch `number`.
  virtual std::int64_t rows(std::int64_t number) const = 0;
  /// The forward pass of a microbatch; `in` is what the rank before has made of it, [rows, values], empty on
  /// the first rank, and stays until the backward pass is over. Returns what the next rank gets.
  virtual Matrix forward(const ExecSpace& space, std::int64_t number, const Matrix& in) = 0;
  /// The backward pass from the gradient of what `forward` returned, which may be overwritten; on the last
  /// rank that is empty, and the loss comes first. Returns the gradient of `in`, which stays until the next
  /// call.
  virtual Matrix backward(const ExecSpace& space, std::int64_t number, const Matrix& gradient) = 0;
};

} // namespace partita
