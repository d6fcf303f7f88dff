#pragma once

#include "partita/comm/mpi.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace partita {

/// Read-only memory shared by the ranks of a node.
struct NodeMemory {
  std::shared_ptr<const void> values; ///< null on every rank if the system cannot share it
  std::string failure;                ///< if so, the reason, on every rank
};

/// `bytes` bytes, the same number on all ranks, which `fill` writes on the first one. Unlike with an MPI
/// window, each rank releases the memory independently, even if others have died, and a lack of space is
/// known before the space is used. The memory loses its name before it gets its content, so a job that is
/// killed leaves no data behind. Collective over ranks of one node.
NodeMemory shareOnNode(const Communicator& node, std::uint64_t bytes, const std::function<void(void*)>& fill);

} // namespace partita
