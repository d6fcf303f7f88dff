#pragma once

#include "partita/core/typed_matrix.hpp"

namespace partita {

/// What a rank computes for a batch; the engine decides when, and transfers data between ranks. Microbatches
/// are numbered from 0 in each batch; forward passes run in this order, and so do backward passes.
class PipelineWork {
 public:
  virtual ~PipelineWork() = default;

  /// Samples in microbatch `number`.
  virtual std::int64_t rows(std::int64_t number) const = 0;
  /// The forward pass of a microbatch; `in` is the output of the previous rank, [rows, values], empty on the
  /// first rank; it stays valid until the backward pass is over. Returns the input of the next rank.
  virtual TypedMatrix forward(const ExecSpace& space, std::int64_t number, const TypedMatrix& in) = 0;
  /// The backward pass from the gradient of what `forward` returned, which may be overwritten. On the last
  /// rank `gradient` is empty, and the loss is computed first. Returns the gradient of `in`, valid until the
  /// next call.
  virtual TypedMatrix backward(const ExecSpace& space, std::int64_t number, const TypedMatrix& gradient) = 0;
};

} // namespace partita
