#pragma once

#include <csignal>

namespace partita {

/// What signals have asked for since the start; handlers do no more than note it. A second SIGINT ends
/// the process at once, as if nobody handled it. SIGHUP, from a terminal that closes, is taken like SIGTERM,
/// unless it was ignored from the start (nohup).
class Signals {
 public:
  static void listen();
  static int stop() { return s_stop; } ///< SIGINT, SIGTERM or SIGHUP where one has come, else 0
  /// Has SIGUSR1 come since the last call?
  static bool takeCheckpointRequest();

 private:
  static void handle(int signal);
  static volatile std::sig_atomic_t s_stop, s_checkpoint;
};

} // namespace partita
