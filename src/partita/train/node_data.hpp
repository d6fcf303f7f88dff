#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/data/dataset.hpp"

#include <functional>

namespace partita {

/// The sets that `load` returns on the first rank of `sharing`, in memory that all ranks of `sharing` share:
/// otherwise each rank would read the files and hold a copy. `sharing`: ranks of one node, null on ranks that
/// load nothing. Where the system cannot share memory, each rank gets a copy, with a warning.
/// Collective over `world`; throws AgreedError.
DataSets loadOnNode(const Communicator& world, const Communicator* sharing,
                    const std::function<DataSets()>& load);

} // namespace partita
