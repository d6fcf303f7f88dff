#pragma once

#include "partita/comm/mpi.hpp"

namespace partita {

/// Memory that all ranks on the node of rank 0 read and write directly: an MPI-3 shared-memory window. Ranks
/// on other nodes have none.
class SharedWindow {
 public:
  /// `bytes` of zeros, at a multiple of 128 bytes on every rank. Throws AgreedError if there is no room for
  /// them or the MPI library cannot share memory, and SystemError on ranks where it reports a failure.
  /// Collective.
  SharedWindow(const Communicator& world, std::int64_t bytes);
  /// Collective, unless an exception is the reason for the destruction.
  ~SharedWindow();
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;

  void* data() const { return _data; } ///< null on other nodes
  std::int64_t bytes() const { return _bytes; }
  /// Makes visible to others what this rank has written, and visible here what others wrote before
  /// they sent a message that has arrived.
  void synchronise() const;

 private:
  void allocate();

  Communicator _node;
  std::int64_t _bytes;
  bool _with_first; ///< is rank 0 on this node?
  MPI_Win _window = MPI_WIN_NULL;
  void* _data = nullptr;
};

} // namespace partita
