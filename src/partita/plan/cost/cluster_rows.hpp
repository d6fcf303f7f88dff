#pragma once

#include "partita/plan/cost/cluster.hpp"

#include <cstdint>
#include <tuple>

namespace partita {

constexpr std::int64_t most_ranks = 1 << 24; ///< of a cluster; a link with as many has no limit

// What tells the rows of a section apart: what they are found by, not what has been measured.
inline auto identityOf(const NetworkTiming& row) {
  return std::tuple(row.deck, row.parameters, row.flops_per_sample, row.precision);
}
inline auto identityOf(const WorkerTiming& row) {
  return std::tuple(row.deck, row.rank);
}
inline auto identityOf(const KernelRate& row) {
  return std::tuple(row.type, row.rows, row.inputs, row.outputs, row.window);
}
inline auto identityOf(const Concurrency& row) {
  return std::tuple(row.ranks);
}

} // namespace partita
