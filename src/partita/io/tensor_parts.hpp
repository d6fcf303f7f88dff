#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/core/types.hpp"
#include "partita/plan/tensor_slice.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace partita {

/// The part of a tensor that a rank has.
struct TensorPart {
  TensorSlice slice;
  const Real* values; ///< row-major, contiguous
};

/// Called on rank 0 for each block of whole rows, in order: `values` of `rows` rows starting at `first`. It
/// must not throw, or the other ranks wait forever.
using TakeRows = std::function<void(std::int64_t first, std::int64_t rows, const Real* values)>;

/// Gathers a tensor distributed over ranks on rank 0, at most `rows_at_once` rows at a time: for consumers
/// that need all values in order, such as a hash or a compressed chunk. Collective.
void gatherTensor(const Communicator& comm, const std::vector<std::int64_t>& extents,
                  const std::vector<TensorPart>& own, std::int64_t rows_at_once, const TakeRows& take);

} // namespace partita
