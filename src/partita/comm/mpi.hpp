#pragma once

#include "partita/core/error.hpp"

// The C++ bindings, long removed from the standard, only cause warnings.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

/// MPI calls go through this macro: a failure becomes an InternalError with the call and MPI's own message.
/// Exceptions are calls that clean up, mostly in destructors, calls while a failure is described or ends the
/// job, the marks for profilers, and the one that makes shared memory, whose failure is the user's to mend.
#define PARTITA_MPI(call)                                                                                    \
  do {                                                                                                       \
    const int partita_mpi_code = (call);                                                                     \
    if (partita_mpi_code != MPI_SUCCESS) PARTITA_FAIL(::partita::describeMpiError(#call, partita_mpi_code)); \
  } while (false)

namespace partita {

std::string describeMpiError(const char* call, int code);

/// Without a launcher, Open MPI 4 starts a daemon for the process, which takes longer than many
/// commands run. This makes the process start alone, and without a folder for its files: processes
/// that start at the same time would remove that folder from under one another. Call it before MPI
/// starts; variables that the user has set are kept.
void startWithoutDaemon();

/// Initialises MPI until the end of the scope. Only the main thread calls MPI, except for a thread that
/// writes files on its own communicator; that thread must first check whether it may.
class MpiEnvironment {
 public:
  MpiEnvironment(int& argc, char**& argv);
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  /// May threads other than the main one call MPI at any time? Not every MPI library supports it.
  static bool threadsMayCall();
  /// Name and version of the MPI library.
  static std::string library();
};

template <class T>
MPI_Datatype mpiType();
template <>
inline MPI_Datatype mpiType<float>() {
  return MPI_FLOAT;
}
template <>
inline MPI_Datatype mpiType<double>() {
  return MPI_DOUBLE;
}
template <>
inline MPI_Datatype mpiType<std::int64_t>() {
  return MPI_INT64_T;
}

/// An owned communicator. Errors are returned rather than fatal, so that Partita can report them in its own
/// words.
class Communicator {
 public:
  static Communicator world();
  /// Ranks of one colour, ordered by key; collective.
  Communicator split(int colour, int key) const;
  Communicator duplicate() const; ///< collective
  Communicator node() const;      ///< the ranks that share this one's memory; collective
  /// These ranks alone, in increasing order; collective on them, whatever has happened to the others.
  Communicator only(const std::vector<int>& ranks) const;

  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  ~Communicator();

  MPI_Comm get() const { return _comm; }
  int rank() const { return _rank; }
  int size() const { return _size; }
  /// The number by which the launcher knows a rank of this communicator. MPI searches for it once: its
  /// time grows with the ranks of the job, so the answer is kept.
  int worldRank(int rank) const;
  std::vector<int> worldRanks(const std::vector<int>& ranks) const; ///< the same of several ranks
  std::vector<int> worldRanks() const;                              ///< the same of all ranks

  void barrier() const;
  void sum(std::vector<double>& values) const;                ///< in place, over all ranks
  void exclusiveOr(std::vector<std::uint32_t>& values) const; ///< in place, over all ranks
  std::int64_t maximum(std::int64_t value) const;             ///< over all ranks
  double maximum(double value) const;
  std::int64_t minimum(std::int64_t value) const;
  std::int64_t total(std::int64_t value) const;               ///< sum over all ranks
  std::vector<std::int64_t> gather(std::int64_t value) const; ///< on rank 0, by rank

 private:
  explicit Communicator(MPI_Comm comm);
  void translate(const int* ranks, int count, int* found) const;
  void reduce(void* values, std::int64_t count, MPI_Datatype type, MPI_Op operation) const;
  MPI_Comm _comm = MPI_COMM_NULL;
  int _rank = 0, _size = 1;
  mutable std::vector<int> _world_ranks; ///< by rank; negative: nobody has asked yet
};

/// A count as the int that MPI expects; PARTITA_FAIL if it does not fit.
int mpiCount(std::int64_t count);

/// MPI objects that this process holds, counted by the classes that own them (Communicator, Request). Any
/// thread may count.
struct MpiObjects {
  int communicators = 0;         ///< not freed so far
  int requests = 0;              ///< in flight when their owner was destroyed: can no longer be completed
  const char* last_request = ""; ///< what the last of these waited for
};
MpiObjects mpiObjects();

void countCommunicators(int change);
void countLeftRequests(int change, const char* what);

/// "2 communicators not freed, 1 request not completed (activations)"; empty if nothing is left. Called
/// before MPI_Finalize.
std::string describeLeaks();

} // namespace partita
