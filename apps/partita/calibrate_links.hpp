#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/core/types.hpp"
#include "partita/plan/cost/cluster.hpp"

namespace partita {

/// Measures the times of messages of each size in rings of 2, 4, 8, ... and all ranks, and prints a line for
/// each ring.
/// Collective.
LinkTable measureLinks(const ExecSpace& space, const Communicator& world, bool quick);

} // namespace partita
