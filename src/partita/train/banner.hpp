#pragma once

#include "partita/comm/grid.hpp"
#include "partita/core/provenance.hpp"
#include "partita/plan/grid_plan.hpp"

namespace partita {

/// Prints what this build and machine are, on rank 0, after measuring the rate of a matrix product; warns
/// where a better choice of BLAS kernels exists. Returns it on every rank.
Provenance showBanner(const ExecSpace& space, const Communicator& world, const std::string& command_line);

/// Prints how matrices get to MPI, and why so. Returns it on every rank. Collective.
std::string showMessagePaths(const Grid& grid);

/// Prints the table of the stages: rank, layers, parameters, FLOPs a sample, bytes in the memory of a rank's
/// device, and what the cut allows.
void showPartition(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                   const DeviceKind& device);

} // namespace partita
