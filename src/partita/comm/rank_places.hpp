#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/core/provenance.hpp"

#include <string>
#include <vector>

namespace partita {

/// Threads that suit this rank where nobody has said: the cores it may run on, shared with the ranks of its
/// node that may run on the same ones. More threads than cores would spin against one another. Collective.
int threadsForThisRank(const Communicator& world);

/// Where one rank runs.
struct RankPlace {
  std::string host;
  int node = 0;       ///< lowest rank on the same node: hosts may share a name
  int local_rank = 0; ///< on its node
  Device device;
};

/// Of all ranks, in order; empty but on rank 0. Collective; Kokkos runs.
std::vector<RankPlace> gatherPlaces(const Communicator& world);

/// The map for people: ranks that are alike in one line, at most `most` lines, the rest counted.
std::vector<std::string> placeLines(const std::vector<RankPlace>& places, std::size_t most = 16);

/// A device that several ranks share, devices that none uses; one line a node.
std::vector<std::string> placeWarnings(const std::vector<RankPlace>& places);

/// "4 x NVIDIA H200 on 2 nodes", "2 x host (8 threads) on 1 node".
std::string summarisePlaces(const std::vector<RankPlace>& places);

} // namespace partita
