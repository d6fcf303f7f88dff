#pragma once

#include <string>

namespace partita {

/// What this process holds of MPI, counted by the classes that own it (Communicator, Request). Any thread may
/// count.
struct MpiObjects {
  int communicators = 0;         ///< not freed so far
  int requests = 0;              ///< under way when their owner went: nobody can complete them any more
  const char* last_request = ""; ///< what the last of these waited for
};
MpiObjects mpiObjects();

void countCommunicators(int change);
void countLeftRequests(int change, const char* what);

/// "2 communicators not freed, 1 request not completed (activations)"; empty where nothing is left. Asked
/// before MPI_Finalize.
std::string describeLeaks();

} // namespace partita
