#include "partita/io/parameters_hash.hpp"

#include "partita/comm/wait.hpp"
#include "partita/core/sha256.hpp"

namespace partita {

namespace {

constexpr int hash_tag = 7;

HostVector hostCopy(const StoredVector& values) {
  HostVector host(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::io::parameters"),
                  static_cast<std::size_t>(values.size()));
  values.copyOut(ExecSpace(), 0, values.size(), host.data());
  return host;
}

/// Layer by layer its parameters, then its statistics: the order does not depend on the cuts.
void addStage(const Stage& stage, Sha256& hash) {
  const HostVector values = hostCopy(stage.masters()),
                   statistics = hostCopy(StoredVector(stage.statistics()));
  auto beside = stage.statisticsTensors().begin();
  const auto end = stage.statisticsTensors().end();
  const auto& tensors = stage.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    hash.update(values.data() + tensors[i].offset, static_cast<std::size_t>(tensors[i].size) * sizeof(Real));
    if (i + 1 < tensors.size() && tensors[i + 1].layer == tensors[i].layer) continue;
    for (; beside != end && beside->layer == tensors[i].layer; ++beside)
      hash.update(statistics.data() + beside->offset, static_cast<std::size_t>(beside->size) * sizeof(Real));
  }
}

void sendHash(const Communicator& chain, int to, const Sha256& hash) {
  Request request;
  PARTITA_MPI(MPI_Isend(&hash, sizeof(hash), MPI_BYTE, to, hash_tag, chain.get(),
                        request.start({WaitedFor::Kind::taker, "hash", chain.worldRank(to), 0})));
  request.wait();
}

void receiveHash(const Communicator& chain, int from, Sha256& hash) {
  Request request;
  PARTITA_MPI(MPI_Irecv(&hash, sizeof(hash), MPI_BYTE, from, hash_tag, chain.get(),
                        request.start({WaitedFor::Kind::message, "hash", chain.worldRank(from), 0})));
  request.wait();
}

} // namespace

std::string hashParameters(const Grid& grid, const std::vector<const Stage*>& stages) {
  if (grid.replica() != 0) return "";
  const Communicator& chain = grid.chain();
  Sha256 hash; // plain data: the next group goes on where this one stops, and the last tells rank 0
  if (chain.rank() > 0) receiveHash(chain, chain.rank() - 1, hash);
  for (const Stage* stage : stages) addStage(*stage, hash);
  const int last = chain.size() - 1;
  if (last > 0) sendHash(chain, chain.rank() < last ? chain.rank() + 1 : 0, hash);
  if (chain.rank() == 0 && last > 0) receiveHash(chain, last, hash);
  return chain.rank() == 0 ? hash.hex() : "";
}

} // namespace partita
