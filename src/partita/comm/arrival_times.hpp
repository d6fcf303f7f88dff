#pragma once

#include "partita/comm/link.hpp"
#include "partita/comm/wait.hpp"

#include <deque>
#include <map>

namespace partita {

/// When messages arrive on links that are emulated as slower than the real ones. Only the sender knows it,
/// and sends it after the message, in one of its own, because the buffer of the message has no room for it.
/// On real links nothing happens.
class ArrivalTimes {
 public:
  explicit ArrivalTimes(const Communicator& comm) : _comm(comm) {}

  /// To be called after a message of so many bytes has been sent to a rank. `what` is a literal, for reports.
  void sent(int peer, std::int64_t bytes, const char* what);
  /// To be called after the receive of a message from a rank has been posted.
  void posted(int peer, const char* what);
  /// Waits until all these messages have arrived. The messages themselves must be complete.
  void wait();

 private:
  struct Stamp {
    double seconds = 0.0; ///< in linkSeconds
    Request request;
    WaitedFor awaited;
  };
  Stamp& add(WaitedFor::Kind kind, int peer, const char* what);

  const Communicator& _comm;
  std::map<int, SlowLink> _links; ///< to each rank
  std::deque<Stamp> _stamps;      ///< sent and received
};

} // namespace partita
