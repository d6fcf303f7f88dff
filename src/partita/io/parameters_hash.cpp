#include "partita/io/parameters_hash.hpp"

#include "partita/comm/wait.hpp"
#include "partita/core/sha256.hpp"

namespace partita {

namespace {

constexpr int hash_tag = 7;

HostVector hostCopy(const Stage& stage) {
  const StoredVector& values = stage.masters();
  HostVector host(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::io::parameters"),
                  static_cast<std::size_t>(values.size()));
  values.copyOut(ExecSpace(), 0, values.size(), host.data());
  return host;
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
  for (const Stage* stage : stages) {
    const HostVector values = hostCopy(*stage);
    hash.update(values.data(), values.size() * sizeof(Real));
  }
  const int last = chain.size() - 1;
  if (last > 0) sendHash(chain, chain.rank() < last ? chain.rank() + 1 : 0, hash);
  if (chain.rank() == 0 && last > 0) receiveHash(chain, last, hash);
  return chain.rank() == 0 ? hash.hex() : "";
}

} // namespace partita
