#pragma once

#include "partita/comm/wait.hpp"
#include "partita/comm/wait_table.hpp"

#include <chrono>
#include <functional>
#include <string>

namespace partita {

/// Ends a job that cannot move on, with a table of who waits for what.
///
/// Ranks give rank 0 a sign about once a second: that they are at work (`alive`), or what they wait for.
/// Where ranks wait only for one another a message is lost; where one gives no sign and others wait it is
/// warned of, and in the end the job ends. A sign is a synchronous message, so that it comes back as the
/// knowledge that rank 0 took it: without that for long, a waiting rank ends the job itself. Nothing is sent
/// within the first second.
class Watchdog final : public Watcher {
 public:
  /// Seconds.
  struct Limits {
    double sign = 1.0;      ///< from one sign to the next
    double stuck = 5.0;     ///< that ranks wait for one another; no network holds a message up so long
    double warning = 10.0;  ///< of silence, at first; doubled by each warning
    double silence = 600.0; ///< that end the job; 0: none do
  };
  /// Told what was found; `end` need not return. Warnings come on rank 0 only.
  struct Actions {
    std::function<void(const std::string&)> warn, end;
  };
  static Actions warnAndEndJob(); ///< `end` is endJob with exit code 1

  /// Watches from here to the end of the scope, one at a time. Collective, also the end, unless by an
  /// exception.
  Watchdog(const Communicator& world, const Limits& limits, Actions actions = warnAndEndJob());
  ~Watchdog() noexcept(false);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void waiting(const WaitedFor& what, double seconds) override;
  void computing() override;

 private:
  void tell(const Sign& sign, double now);
  void look(double now);
  void pump(double now);
  void endWithoutRankZero(double now);
  double seconds() const; ///< since the start

  Communicator _comm;
  Limits _limits;
  Actions _actions;
  WaitTable _table;
  Sign _sign; ///< on its way to rank 0 while `_request` is
  Request _request;
  std::chrono::steady_clock::time_point _start = std::chrono::steady_clock::now();
  double _told = 0.0, _sent = 0.0, _looked = 0.0, _attentive_since = 0.0, _next_warning;
  bool _told_of_wait = false, _ending = false;
};

} // namespace partita
