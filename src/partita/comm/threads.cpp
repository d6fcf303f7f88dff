#include "partita/comm/threads.hpp"

#include <algorithm>
#include <cstring>
#include <sched.h>
#include <thread>

namespace partita {

int threadsForThisRank(const Communicator& world) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) {
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  const Communicator node = world.node();
  std::vector<unsigned char> masks(sizeof mine * static_cast<std::size_t>(node.size()));
  PARTITA_MPI(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, masks.data(), sizeof mine, MPI_BYTE, node.get()));
  int sharing = 0;
  for (int rank = 0; rank < node.size(); ++rank) {
    cpu_set_t other, common;
    std::memcpy(&other, masks.data() + static_cast<std::size_t>(rank) * sizeof other, sizeof other);
    CPU_AND(&common, &mine, &other);
    sharing += CPU_COUNT(&common) > 0 ? 1 : 0;
  }
  return std::max(1, CPU_COUNT(&mine) / std::max(1, sharing));
}

} // namespace partita
