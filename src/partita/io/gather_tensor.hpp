#pragma once

#include "partita/io/run_file.hpp"

#include <functional>

namespace partita {

/// What rank 0 does with each block of whole rows, in order: `values` of `rows` rows from `first` on. It must
/// not throw: the other ranks would wait.
using TakeRows = std::function<void(std::int64_t first, std::int64_t rows, const Real* values)>;

/// Brings a tensor that ranks have parts of to rank 0, at most `rows_at_once` rows at a time: for what has to
/// see all values in order, such as a hash or a compressed chunk. Collective.
void gatherTensor(const Communicator& comm, const std::vector<std::int64_t>& extents,
                  const std::vector<TensorPart>& own, std::int64_t rows_at_once, const TakeRows& take);

} // namespace partita
