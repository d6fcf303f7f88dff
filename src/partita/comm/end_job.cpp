#include "partita/comm/end_job.hpp"

#include "partita/comm/mpi.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>

namespace partita {

void endJob(int rank, const std::string& message, int code) {
  std::signal(SIGTERM, SIG_DFL); // by which the launcher ends us when another rank has told
  // What goes wrong on one rank soon shows on others, and often on all at once: the lowest tells it, and the
  // job has ended before the turn of the next one comes.
  std::this_thread::sleep_for(std::chrono::seconds(std::min(rank, 3)));
  std::cerr << "partita: rank " << rank << ": " << message << std::endl;
  // Once it is told to kill, the launcher may drop what it has not passed on yet.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  MPI_Abort(MPI_COMM_WORLD, code);
  std::abort();
}

} // namespace partita
