#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/core/clock.hpp"

#include <functional>

namespace partita {

/// What a rank waits for, in the words of the report on a wait that does not end.
struct WaitedFor {
  /// A message to come from one rank or from any rank, one of ours to be taken, or all ranks of a
  /// communicator.
  enum class Kind { message, any, taker, all };
  Kind kind = Kind::all;
  const char* what = "";       ///< a literal: "activations", "barrier"
  int peer = -1;               ///< rank of the world that sends or takes
  std::int64_t number = 0;     ///< of the message in its stream, from 1; 0: not counted
  const char* other_what = ""; ///< a message that would do as well: what, from whom, its number
  int other_peer = -1;         ///< none: -1
  std::int64_t other_number = 0;

  /// A wait for either of two messages.
  static WaitedFor either(WaitedFor one, const WaitedFor& other) {
    one.other_what = other.what;
    one.other_peer = other.peer;
    one.other_number = other.number;
    return one;
  }
};

/// A wait under way. Polls instead of blocking: an MPI library that spins would take the core from a rank
/// that computes, and meanwhile this rank can go on answering others (idle hooks).
class Waiting {
 public:
  explicit Waiting(const WaitedFor& what) : _what(what) {}
  void pause();      ///< what is waited for is not there yet
  void over() const; ///< it is

 private:
  WaitedFor _what;
  Clock::time_point _start{}, _last{}; ///< of the pauses; not set before the first
};

/// Completes a request. Every wait of the main thread for other ranks goes through here or through Waiting.
void wait(MPI_Request& request, const WaitedFor& what, MPI_Status* status = MPI_STATUS_IGNORE);

/// Calls a function now and then while the thread that made it waits, as long as it lives; not while such a
/// function waits itself.
class IdleHook {
 public:
  explicit IdleHook(std::function<void()> call);
  ~IdleHook();
  IdleHook(const IdleHook&) = delete;
  IdleHook& operator=(const IdleHook&) = delete;

 private:
  std::function<void()> _call;
};

/// This rank is at work. Strategies say so at each step; it costs a look at the clock.
void alive();

/// A turn of a wait for something that is no other rank, such as a disk: lets messages move on, calls the
/// idle hooks, and gives the core away for a moment. The rank counts as at work.
void idleBriefly();

/// Is told what the thread that has set it does; a thread that writes files is none of its business.
class Watcher {
 public:
  virtual void waiting(const WaitedFor& what, double seconds) = 0; ///< again and again, for so long already
  virtual void computing() = 0;

 protected:
  ~Watcher() = default;
};
void setWatcher(Watcher* watcher); ///< nullptr: none

/// A request in flight and what it is for. One that goes while it is under way is counted as a leak, unless
/// an exception takes everything down.
class Request {
 public:
  Request() = default;
  ~Request();
  Request(Request&& other) noexcept;
  Request& operator=(Request&& other) = delete;

  /// For the call that starts it; the one before must be complete.
  MPI_Request* start(const WaitedFor& what);
  bool underWay() const { return _request != MPI_REQUEST_NULL; }
  /// Is it complete by now? MPI moves on only while it is called.
  bool test(MPI_Status* status = MPI_STATUS_IGNORE);
  void wait(MPI_Status* status = MPI_STATUS_IGNORE);
  void abandon(); ///< a receive that nobody will want

 private:
  MPI_Request _request = MPI_REQUEST_NULL;
  WaitedFor _what;
};

} // namespace partita
