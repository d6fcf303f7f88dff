#pragma once

#include "partita/comm/mpi.hpp"

namespace partita::test {

/// Observes the program from below: the MPI calls that it really makes, whatever its own counters say
/// (pmpi.cpp).

enum class MpiCall { send, receive, all_reduce, file_write };

struct MpiRecord {
  MpiCall call;
  MPI_Comm comm; ///< null for a file write
  int peer;      ///< rank in `comm`; -1 for all of them
  std::int64_t bytes;
  MPI_Comm parent;    ///< the communicator with the same ranks that `comm` was split from; null: none
  const void* buffer; ///< of a message or a sum
};

/// Records this rank's calls during the life of the object; one recording at a time.
class MpiRecording {
 public:
  MpiRecording();
  ~MpiRecording();
  MpiRecording(const MpiRecording&) = delete;
  MpiRecording& operator=(const MpiRecording&) = delete;

  std::vector<MpiRecord> all() const;
  std::vector<MpiRecord> on(const Communicator& comm, MpiCall call) const;
  std::vector<MpiRecord> onDuplicates(const Communicator& comm, MpiCall call) const; ///< or on itself
};

std::int64_t totalBytes(const std::vector<MpiRecord>& records);

/// The bytes that were summed over the ranks of a communicator on which, like on its duplicates, nothing else
/// is sent: by MPI, or round a ring, in which all ranks together send 2 (ranks - 1) times as much, but not by
/// NCCL. Collective.
std::int64_t summedBytes(const MpiRecording& recording, const Communicator& comm);

/// Delays calls at random during the life of the object, differently on every rank: a slow network and busy
/// cores.
class MpiDelays {
 public:
  explicit MpiDelays(std::uint64_t seed);
  ~MpiDelays();
  MpiDelays(const MpiDelays&) = delete;
  MpiDelays& operator=(const MpiDelays&) = delete;
};

/// Loses one message of matrices: the `number`th, from 1, that rank `rank` of the world sends.
class MpiLoss {
 public:
  MpiLoss(int rank, int number);
  ~MpiLoss();
  MpiLoss(const MpiLoss&) = delete;
  MpiLoss& operator=(const MpiLoss&) = delete;

  void deliver(); ///< late, on the rank that lost it
};

} // namespace partita::test
