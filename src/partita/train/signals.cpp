#include "partita/train/signals.hpp"

namespace partita {

volatile std::sig_atomic_t Signals::s_stop = 0;
volatile std::sig_atomic_t Signals::s_checkpoint = 0;

void Signals::handle(int signal) {
  if (signal == SIGUSR1) {
    s_checkpoint = 1;
    return;
  }
  s_stop = signal;
}

namespace {

struct sigaction actionOf(void (*handle)(int)) {
  struct sigaction action {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  return action;
}

void setUnlessIgnored(int signal, const struct sigaction& action) {
  struct sigaction before {};
  sigaction(signal, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
}

} // namespace

void Signals::recordRequests() {
  const struct sigaction action = actionOf(handle);
  sigaction(SIGUSR1, &action, nullptr);
}

void Signals::listen() {
  struct sigaction action = actionOf(handle);
  sigaction(SIGTERM, &action, nullptr); // a launcher and a batch system may both send it
  setUnlessIgnored(SIGHUP, action);
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND); // a second Ctrl-C ends the program at once
  setUnlessIgnored(SIGINT, action);
}

bool Signals::takeCheckpointRequest() {
  if (s_checkpoint == 0) return false; // a signal that arrives now is left for the next call
  s_checkpoint = 0;
  return true;
}

} // namespace partita
