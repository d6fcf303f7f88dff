#pragma once

#include "partita/comm/grid.hpp"
#include "partita/comm/rank_places.hpp"
#include "partita/core/provenance.hpp"
#include "partita/plan/grid_plan.hpp"

#include <map>
#include <vector>

namespace partita {

/// What the banner shows of the build and the machine.
struct Banner {
  Provenance provenance;
  /// FLOP/s of a product of such numbers, if they are multiplied without a conversion; on rank 0.
  std::map<Precision, double> product_rates;
  std::vector<RankPlace> places; ///< by rank, on rank 0
};

/// Prints the build and the machine on rank 0, after measuring the rate of a matrix product; warns if a
/// better choice of BLAS kernels exists.
Banner showBanner(const ExecSpace& space, const Communicator& world, const std::string& command_line);

/// Prints how matrices get to MPI, and the reason. Returns it on every rank. Collective.
std::string showMessagePaths(const Grid& grid);

/// Prints the table of the stages: rank, layers, parameters, FLOPs per sample, bytes in the memory of the
/// rank's device, and what the cut allows. `config`: what is left of `deck` with the strategy it names.
void showPartition(const RunConfig& deck, const RunConfig& config, const Partition& partition,
                   const GridPlan& grid, const DeviceKind& device);

} // namespace partita
