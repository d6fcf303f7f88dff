#pragma once

#include "partita/comm/lasting.hpp"
#include "partita/comm/wait_table.hpp"
#include "partita/core/watched_time.hpp"

#include <functional>
#include <string>
#include <vector>

namespace partita {

/// Ends a job that cannot continue, and prints a table of which rank waits for what.
///
/// About once a second, each rank sends rank 0 a sign: that it is at work (`alive`), or what it
/// waits for. If ranks wait only for one another, a message is lost. If a rank sends no sign while
/// others wait, the watchdog warns and finally ends the job. A sign is a synchronous message, so
/// its completion shows that rank 0 received it: if a sign is not received for a long time, a
/// waiting rank ends the job itself. Nothing is sent within the first second. Batch systems may suspend a
/// job and resume it much later: of a time in which a rank has not looked, only a part counts.
class Watchdog final : public Watcher {
 public:
  /// Seconds.
  struct Limits {
    double sign = 1.0;      ///< between two signs
    double stuck = 60.0;    ///< of ranks waiting for one another before a message counts as lost
    double warning = 10.0;  ///< of silence before the first warning; doubled by each warning
    double silence = 600.0; ///< of silence before the job ends; 0: never
  };
  /// Called with the finding, which names ranks by their numbers in the job; `end` need not return. Only rank
  /// 0 warns.
  struct Actions {
    std::function<void(const std::string&)> warn, end;
    /// Called with silent ranks of the watched communicator before `end`; returns whether the job continues
    /// without them. May be empty.
    std::function<bool(const std::vector<int>&)> lose = {};
  };
  static Actions warnAndEndJob(); ///< `end` is endJob with exit code 1

  /// Watches until the end of the scope; only one at a time. Construction is collective, and so is
  /// destruction unless an exception other than an AgreedError causes it. Its last wait may throw RanksLost,
  /// so that smart pointers, whose destructors may not throw, cannot own a watchdog. `seconds`: this rank's
  /// clock, zero at the construction; empty: that of the system.
  Watchdog(const Communicator& world, const Limits& limits, Actions actions = warnAndEndJob(),
           std::function<double()> seconds = {});
  ~Watchdog() noexcept(false);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Forgets what it knows of the ranks and watches with other limits. To be called on every rank.
  void restart(const Limits& limits);

  void waiting(const WaitedFor& what, double seconds) override;
  void computing() override;

 private:
  void end();
  void report(const Sign& sign, double now);
  void look(double now);
  void pump(double now);
  void endWithoutRankZero(double now);
  double countedSeconds();
  std::string names(const std::vector<int>& ranks) const;

  Communicator _comm;
  Limits _limits;
  Actions _actions;
  WaitTable _table;
  Lasting<Sign> _sign; ///< in flight to rank 0 while `_request` is
  Request _request;
  WatchedTime _time;
  double _reported = 0.0, _sent = 0.0, _looked = 0.0, _attentive_since = 0.0, _next_warning;
  bool _reported_wait = false, _ending = false;
};

} // namespace partita
