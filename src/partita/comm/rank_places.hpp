#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/core/control_group.hpp"
#include "partita/core/provenance.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <sched.h>
#include <string>
#include <vector>

namespace partita {

/// What the system gives one rank of a node.
struct CoreShare {
  cpu_set_t cores;
  /// The smallest quota on the path of its control groups, shared with the ranks of the same group. A looser
  /// limit further up is not known, even if several such groups together exceed it.
  CoreQuota quota;
};

/// Default number of threads for one of the ranks of a node: the cores it may run on, divided among the ranks
/// that may run on the same cores; no more than the processor time of its control group, divided among the
/// ranks of the same group. A container may hold one rank or all. More threads than cores would spin against
/// one another.
int threadsOf(const std::vector<CoreShare>& ranks, std::size_t rank);

/// The number of cores that the ranks of a node can keep busy together.
std::int64_t coresOf(const std::vector<CoreShare>& ranks);

/// `threadsOf` for this rank. Collective.
int threadsForThisRank(const Communicator& world);

/// The number of ranks of a node whose threads can run at once, on the node where it is smallest; 0 if all
/// ranks of all nodes can. Collective. Kokkos must be initialised.
std::int64_t ranksAtOnce(const Communicator& world);

/// Are there nodes whose ranks have more threads than available cores? Their threads then run in turns, and a
/// short measurement does not see that they wait. False on devices. Collective. Kokkos must be initialised.
bool isOversubscribed(const Communicator& world);

/// Advice if the ranks of some node may run on half of the cores that the job has there, or on less; empty
/// otherwise, if OMP_NUM_THREADS or KOKKOS_NUM_THREADS is set, and if the program computes on devices or with
/// one thread per rank. Collective.
std::string bindingAdvice(const Communicator& world);

/// The number of this process among those that a launcher (Open MPI, MPICH, MVAPICH, Intel MPI, PALS, Slurm)
/// has started on this node, from the environment; none without a launcher. For what must be known before MPI
/// starts.
std::optional<int> launcherLocalRank();

/// Where one rank runs.
struct RankPlace {
  std::string host;
  int node = 0;       ///< lowest rank on the same node: hosts may share a name
  int local_rank = 0; ///< on its node
  Device device;
};

/// The places of all ranks, in order; empty except on rank 0. Collective. Kokkos must be initialised.
std::vector<RankPlace> gatherPlaces(const Communicator& world);

/// The map as text: similar ranks share a line; at most `most` lines, and the rest are counted.
std::vector<std::string> placeLines(const std::vector<RankPlace>& places, std::size_t most = 16);

/// Warnings about devices shared by several ranks and devices that no rank uses; one line per node.
std::vector<std::string> placeWarnings(const std::vector<RankPlace>& places);

/// Does each rank compute on a device of its own?
bool devicesDiffer(const std::vector<RankPlace>& places);

/// "4 x NVIDIA H200 on 2 nodes", "2 x host (8 threads) on 1 node".
std::string summarisePlaces(const std::vector<RankPlace>& places);

} // namespace partita
