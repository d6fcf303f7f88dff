// Loaded with LD_PRELOAD: one message of a real run goes wrong. PARTITA_FAULT=KIND:RANK:NUMBER, where KIND is
// `lose` (it is never sent, and MPI says that it was) or `fail` (MPI says so), and NUMBER counts the matrices
// that the rank sends, from 1.

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

struct Fault {
  char kind[8] = "";
  int rank = -1, number = 0;
};

Fault readFault() {
  Fault fault;
  const char* text = std::getenv("PARTITA_FAULT");
  if (text != nullptr) std::sscanf(text, "%7[a-z]:%d:%d", fault.kind, &fault.rank, &fault.number);
  return fault;
}

/// Tells when, so that a test can measure how long it took to be noticed.
void announce() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::fprintf(stderr, "faults: %.3f\n",
               static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec));
}

} // namespace

extern "C" int MPI_Issend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                          MPI_Request* request) {
  static const Fault fault = readFault();
  static int sent = 0;
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != fault.rank || type == MPI_BYTE || ++sent != fault.number)
    return PMPI_Issend(buffer, count, type, to, tag, comm, request);
  announce();
  *request = MPI_REQUEST_NULL;
  return std::strcmp(fault.kind, "fail") == 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
}
