#pragma once

#include "partita/comm/mpi.hpp"

namespace partita::test {

/// A view from under the program: the calls it really makes, whatever its own counters say (pmpi.cpp).

enum class MpiCall { send, receive, all_reduce, file_write };

struct MpiRecord {
  MpiCall call;
  MPI_Comm comm; ///< none where a file is written
  int peer;      ///< rank in `comm`; -1 for all of them
  std::int64_t bytes;
};

/// Keeps this rank's calls from its making on; one at a time.
class MpiRecording {
 public:
  MpiRecording();
  ~MpiRecording();
  MpiRecording(const MpiRecording&) = delete;
  MpiRecording& operator=(const MpiRecording&) = delete;

  std::vector<MpiRecord> all() const;
  std::vector<MpiRecord> on(const Communicator& comm, MpiCall call) const;
};

std::int64_t totalBytes(const std::vector<MpiRecord>& records);

/// While it lives, calls wait at random, differently on every rank: a slow network and busy cores.
class MpiDelays {
 public:
  explicit MpiDelays(std::uint64_t seed);
  ~MpiDelays();
  MpiDelays(const MpiDelays&) = delete;
  MpiDelays& operator=(const MpiDelays&) = delete;
};

/// One message of matrices is lost: the `number`th, from 1, that rank `rank` of the world sends.
class MpiLoss {
 public:
  MpiLoss(int rank, int number);
  ~MpiLoss();
  MpiLoss(const MpiLoss&) = delete;
  MpiLoss& operator=(const MpiLoss&) = delete;

  void deliver(); ///< late, on the rank that lost it
};

} // namespace partita::test
