#include "partita/comm/end_job.hpp"

#include "partita/comm/mpi.hpp"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

namespace partita {

void endJob(int rank, const std::string& message, int code) {
  std::cerr << "partita: rank " << rank << ": " << message << std::endl;
  // Once it is told to kill, the launcher may drop what it has not passed on yet.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  MPI_Abort(MPI_COMM_WORLD, code);
  std::abort();
}

} // namespace partita
