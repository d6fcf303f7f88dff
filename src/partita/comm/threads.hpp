#pragma once

#include "partita/comm/mpi.hpp"

namespace partita {

/// Threads that suit this rank where nobody has said: the cores it may run on, shared with the ranks of its
/// node that may run on the same ones. More threads than cores would spin against one another. Collective.
int threadsForThisRank(const Communicator& world);

} // namespace partita
