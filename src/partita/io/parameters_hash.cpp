#include "partita/io/parameters_hash.hpp"

#include "partita/comm/tags.hpp"
#include "partita/comm/wait.hpp"
#include "partita/core/sha256.hpp"

#include <algorithm>

namespace partita {

namespace {

constexpr int hash_tag = static_cast<int>(Tag::hash);

/// A piece at a time: whole, a copy of the parameters might be the most that a run ever holds.
void add(const StoredVector& values, const StageTensor& tensor, Sha256& hash) {
  constexpr std::int64_t most = 1 << 16;
  std::vector<Real> piece(static_cast<std::size_t>(std::min(most, tensor.size)));
  for (std::int64_t done = 0; done < tensor.size; done += most) {
    const std::int64_t count = std::min(most, tensor.size - done);
    values.copyOut(ExecSpace(), tensor.offset + done, count, piece.data());
    hash.update(piece.data(), static_cast<std::size_t>(count) * sizeof(Real));
  }
}

/// Layer by layer its parameters, then its statistics: the order does not depend on the cuts.
void addStage(const Stage& stage, Sha256& hash) {
  const StoredVector statistics(stage.statistics());
  auto beside = stage.statisticsTensors().begin();
  const auto end = stage.statisticsTensors().end();
  const auto& tensors = stage.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    add(stage.masters(), tensors[i], hash);
    if (i + 1 < tensors.size() && tensors[i + 1].layer == tensors[i].layer) continue;
    for (; beside != end && beside->layer == tensors[i].layer; ++beside) add(statistics, *beside, hash);
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
