#define CATCH_CONFIG_RUNNER
#include "partita/comm/mpi.hpp"

#include <Kokkos_Core.hpp>
#include <hdf5.h>
#include <mpi.h>

#include <cstdlib>
#include <iostream>
#include <sstream>

#include "support/at_end.hpp"
#include "support/catch.hpp"

namespace {

/// Collects the output of Catch on ranks other than 0; it is shown only if a test failed.
class QuietOutput {
 public:
  explicit QuietOutput(bool quiet) : _original(std::cout.rdbuf()) {
    if (quiet) std::cout.rdbuf(_collected.rdbuf());
  }
  ~QuietOutput() { std::cout.rdbuf(_original); }
  std::string text() const { return _collected.str(); }

 private:
  std::streambuf* _original;
  std::ostringstream _collected;
};

int runTests(int argc, char** argv, int rank) {
  Catch::Session session;
  const int refused = session.applyCommandLine(argc, argv);
  if (refused != 0) return refused;
  const QuietOutput output{rank != 0};
  const int failures = session.run();
  if (failures != 0 && rank != 0) std::cerr << "rank " << rank << ":\n" << output.text() << std::endl;
  for (const auto& release : partita::test::atEnd()) release();
  const std::string leaks = partita::describeLeaks();
  if (!leaks.empty())
    std::cerr << "rank " << rank << ": not released before MPI ends: " << leaks << std::endl;
  return leaks.empty() ? failures : failures + 1;
}

} // namespace

int main(int argc, char** argv) {
  int provided = 0, rank = 0;
  partita::startWithoutDaemon();
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);

  setenv("KOKKOS_DISABLE_WARNINGS", "1", 0);   // advice on thread binding would spoil the lists of tests
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); // errors for damaged files, until the program ends
  Kokkos::initialize(argc, argv);
  int failures = runTests(argc, argv, rank);
  Kokkos::finalize();

  // Every rank returns the same code, so that no launcher takes the success of one rank for that of the job.
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
