#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/data/dataset.hpp"

#include <functional>

namespace partita {

/// Loads the sets on the first rank of `sharing` and shares their memory with the others, so that only one
/// rank reads the files. `sharing`: ranks of one node, null on ranks that load nothing. Where the system
/// cannot share memory, each rank gets a copy, with a warning. Collective over `world`; throws AgreedError.
DataSets loadOnNode(const Communicator& world, const Communicator* sharing,
                    const std::function<DataSets()>& load);

} // namespace partita
