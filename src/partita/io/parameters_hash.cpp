#include "partita/io/parameters_hash.hpp"

#include "partita/core/sha256.hpp"

namespace partita {

namespace {

constexpr int hash_tag = 7;

HostVector hostCopy(const Stage& stage) {
  HostVector host(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::io::parameters"),
                  stage.parameters().extent(0));
  const ExecSpace space;
  Kokkos::deep_copy(space, host, stage.parameters());
  fence(space, "partita::io::hostCopy");
  return host;
}

} // namespace

std::string hashParameters(const Grid& grid, const std::vector<const Stage*>& stages) {
  if (grid.replica() != 0) return "";
  const Communicator& chain = grid.chain();
  Sha256 hash; // plain data: the next group goes on where this one stops, and the last tells rank 0
  if (chain.rank() > 0) {
    PARTITA_MPI(
        MPI_Recv(&hash, sizeof(hash), MPI_BYTE, chain.rank() - 1, hash_tag, chain.get(), MPI_STATUS_IGNORE));
  }
  for (const Stage* stage : stages) {
    const HostVector values = hostCopy(*stage);
    hash.update(values.data(), values.size() * sizeof(Real));
  }
  const int last = chain.size() - 1;
  if (chain.rank() < last || last > 0) {
    PARTITA_MPI(MPI_Send(&hash, sizeof(hash), MPI_BYTE, chain.rank() < last ? chain.rank() + 1 : 0, hash_tag,
                         chain.get()));
  }
  if (chain.rank() == 0 && last > 0) {
    PARTITA_MPI(MPI_Recv(&hash, sizeof(hash), MPI_BYTE, last, hash_tag, chain.get(), MPI_STATUS_IGNORE));
  }
  return chain.rank() == 0 ? hash.hex() : "";
}

} // namespace partita
