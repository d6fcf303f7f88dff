#pragma once

#include <csignal>

namespace partita {

/// What signals have requested since the start; handlers only record it. A second SIGINT ends the process at
/// once, as if it were not handled. SIGHUP, sent by a terminal that closes, is treated like SIGTERM. SIGHUP
/// and SIGINT stay ignored if they were from the start, as by nohup or for a background job of a script.
class Signals {
 public:
  /// Records SIGUSR1, which would otherwise end the process. Call this before anything else: MPI
  /// takes a while to start.
  static void recordRequests();
  /// Records the signals to stop, too.
  static void listen();
  static int stop() { return s_stop; } ///< SIGINT, SIGTERM or SIGHUP if one has arrived, otherwise 0
  /// Returns whether SIGUSR1 has arrived since the last call.
  static bool takeCheckpointRequest();

 private:
  static void handle(int signal);
  static volatile std::sig_atomic_t s_stop, s_checkpoint;
};

} // namespace partita
