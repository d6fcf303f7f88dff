#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/comm/tags.hpp"
#include "partita/core/clock.hpp"

#include <functional>

namespace partita {

/// What a rank waits for, in the words of the report about a wait that does not end.
struct WaitedFor {
  /// A message from one rank or from any rank, the receipt of a message that this rank sent, or all ranks of
  /// a communicator.
  enum class Kind { message, any, taker, all };
  Kind kind = Kind::all;
  const char* what = "";       ///< a literal: "activations", "barrier"
  int peer = -1;               ///< number of the sending or receiving rank in the job (`worldRank`)
  std::int64_t number = 0;     ///< number of the message in its stream, from 1; 0: not counted
  const char* other_what = ""; ///< another message that would end the wait: what, sender, number
  int other_peer = -1;         ///< none: -1
  std::int64_t other_number = 0;
  /// Size of a large message, which MPI moves only while it is called; a wait for it does not sleep at first.
  std::int64_t bytes = 0;
  /// In a pipeline: the first stage of the waiting rank, from 1, and its live microbatches; 0: no pipeline.
  int stage = 0;
  std::int64_t live = 0;

  /// A wait for either of two messages.
  static WaitedFor either(WaitedFor one, const WaitedFor& other) {
    one.other_what = other.what;
    one.other_peer = other.peer;
    one.other_number = other.number;
    return one;
  }
};

/// A wait in progress. Polls instead of blocking: an MPI library that spins would take the core from a rank
/// that computes, and polling lets this rank keep answering others (idle hooks).
class Waiting {
 public:
  explicit Waiting(const WaitedFor& what) : _what(what) {}
  void pause();      ///< the awaited event has not happened yet
  void over() const; ///< it has happened
  /// Like `pause`, but sleeps at once and for this long: for a rank that must leave its core to others.
  void sleep(double seconds);

 private:
  double begin();
  void count(Clock::time_point now) const;
  void sleepOnce(double waited, double seconds);

  WaitedFor _what;
  Clock::time_point _start{}, _last{}; ///< of the pauses; not set before the first
  double _counted = 0.0;               ///< at the last pause: see PhaseTimes::add
};

/// Completes a request. Waits of the main thread for other ranks use this function or Waiting, except for
/// short collective calls of the set-up.
void wait(MPI_Request& request, const WaitedFor& what, MPI_Status* status = MPI_STATUS_IGNORE);

/// Calls a function repeatedly while the thread that created the hook waits, for the lifetime of the hook;
/// not while such a function itself waits.
class IdleHook {
 public:
  /// Hooks of all waits are called at each look, so they must be cheap; the others only while the rank sleeps
  /// between looks.
  enum class When { long_waits, all_waits };
  explicit IdleHook(std::function<void()> call, When when = When::long_waits);
  ~IdleHook();
  IdleHook(const IdleHook&) = delete;
  IdleHook& operator=(const IdleHook&) = delete;

  void call(When now) const; ///< calls the function if it belongs to such waits

 private:
  std::function<void()> _call;
  When _when;
};

/// Reports that this rank is at work. Strategies call it at each step; it costs one look at the clock.
void alive();

/// One iteration of a wait for this rank's own device: calls the hooks of all waits.
void pollBriefly();

/// One iteration of a wait for something other than a rank, such as a disk: lets MPI make progress, calls the
/// idle hooks, and yields the core for a moment. The rank counts as at work.
void idleBriefly();

/// Is notified of what the thread that set it is doing; threads that write files are ignored.
class Watcher {
 public:
  virtual void waiting(const WaitedFor& what,
                       double seconds) = 0; ///< called repeatedly, with the seconds so far
  virtual void computing() = 0;

 protected:
  ~Watcher() = default;
};
void setWatcher(Watcher* watcher); ///< nullptr: none

/// A request in flight and its purpose. A request destroyed while in flight counts as a leak, except during
/// stack unwinding.
class Request {
 public:
  Request() = default;
  ~Request();
  Request(Request&& other) noexcept;
  Request& operator=(Request&& other) = delete;

  /// The argument for the MPI call that starts the request; the previous request must be complete.
  MPI_Request* start(const WaitedFor& what);
  /// Start to send values to a rank of `comm`, or to receive them from it. `what`: see WaitedFor. Return this
  /// request, which the caller may wait for at once.
  Request& send(const void* values, std::int64_t count, MPI_Datatype type, int to, Tag tag,
                const Communicator& comm, const char* what);
  Request& receive(void* values, std::int64_t count, MPI_Datatype type, int from, Tag tag,
                   const Communicator& comm, const char* what);
  bool underWay() const { return _request != MPI_REQUEST_NULL; }
  /// Is it complete? MPI makes progress only while it is called.
  bool test(MPI_Status* status = MPI_STATUS_IGNORE);
  void wait(MPI_Status* status = MPI_STATUS_IGNORE);
  void abandon(); ///< for a receive that is no longer wanted

 private:
  MPI_Request _request = MPI_REQUEST_NULL;
  WaitedFor _what;
};

} // namespace partita
