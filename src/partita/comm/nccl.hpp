#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/comm/rank_sum.hpp"

#include <string>

/// NVIDIA's library of collective operations, which moves values from device to device by itself.
namespace partita::nccl {

/// "2.28.3", or empty if this build is without NCCL.
std::string version();

/// Can all ranks of a communicator add up values by NCCL? It does not accept two ranks on one device. False
/// for a single rank. Collective.
bool serves(const Communicator& ranks);

/// The ranks of a communicator that it serves, without MPI from then on. Collective.
std::shared_ptr<DeviceSums> join(const Communicator& ranks);

} // namespace partita::nccl
