#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/comm/tags.hpp"
#include "partita/comm/wait.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace partita {

/// Maximum message size, in bytes, for data that rank 0 writes to a file, and for broadcasts.
constexpr std::size_t chunk_bytes = std::size_t{1} << 24;

/// Sends data in chunks; returns when they may be changed. Called on ranks other than 0.
inline void sendChunks(const Communicator& comm, Tag tag, const void* data, std::size_t bytes) {
  const char* begin = static_cast<const char*>(data);
  for (std::size_t sent = 0; sent < bytes; sent += chunk_bytes) {
    const std::size_t count = std::min(chunk_bytes, bytes - sent);
    Request().send(begin + sent, count, MPI_CHAR, 0, tag, comm, "data for a file").wait();
  }
}

/// Calls take(data, bytes) for each chunk sent by `rank`, in order. Called on rank 0.
template <class Take>
void receiveChunks(const Communicator& comm, int rank, Tag tag, std::size_t bytes, const Take& take) {
  std::vector<char> chunk(std::min(bytes, chunk_bytes));
  for (std::size_t received = 0; received < bytes; received += chunk_bytes) {
    const std::size_t count = std::min(chunk_bytes, bytes - received);
    Request().receive(chunk.data(), count, MPI_CHAR, rank, tag, comm, "data for a file").wait();
    take(chunk.data(), count);
  }
}

} // namespace partita
