#pragma once

#include "partita/comm/wait.hpp"
#include "partita/core/clock.hpp"

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace partita {

/// The state that a rank reports; plain data, sent as bytes.
struct Sign {
  static Sign ofWork() { return {}; }
  static Sign ofWait(const WaitedFor& what, double seconds);

  /// Is this rank stuck only if all others are?
  bool byAll() const { return kind == WaitedFor::Kind::all || kind == WaitedFor::Kind::any; }

  double waited = -1.0; ///< seconds so far; negative: at work
  WaitedFor::Kind kind = WaitedFor::Kind::all;
  int peer = -1;
  std::int64_t number = 0;
  std::array<char, 32> what{};
  int other_peer = -1; ///< rank whose message would also end the wait; -1: none
  std::int64_t other_number = 0;
  std::array<char, 32> other_what{};
};

/// The last report of every rank, and the conclusions from it. Times are seconds of the clock of the rank
/// that keeps the table.
class WaitTable {
 public:
  /// Signs older than `fresh` say nothing about the present.
  WaitTable(int ranks, double fresh, double now);

  void take(int rank, const Sign& sign, double now);

  /// Ranks that have all waited for at least `seconds`, and only for one another: nothing can free them.
  /// Empty if there are none.
  std::vector<int> stuck(double now, double seconds) const;

  /// The ranks that have given no sign for at least `seconds` while another rank waits.
  std::vector<int> silent(double now, double seconds) const;

  /// What each rank is doing, most suspicious first; ranks doing the same share a line, at most `most` lines.
  std::string text(double now, std::size_t most = 24) const;

 private:
  struct Row {
    Sign sign;
    double told; ///< when it was reported
  };
  bool isFresh(const Row& row, double now) const { return now - row.told <= _fresh; }
  bool waits(const Row& row, double now) const { return row.sign.waited >= 0.0 && isFresh(row, now); }

  double _fresh;
  std::vector<Row> _rows;
};

/// Ends a job that cannot continue, and prints a table of which rank waits for what.
///
/// About once a second, each rank sends rank 0 a sign: that it is at work (`alive`), or what it waits for. If
/// ranks wait only for one another, a message is lost. If a rank gives no sign while others wait, the
/// watchdog warns and finally ends the job. A sign is a synchronous message, so its completion shows that
/// rank 0 received it: if that does not happen for long, a waiting rank ends the job itself. Nothing is sent
/// within the first second.
class Watchdog final : public Watcher {
 public:
  /// Seconds.
  struct Limits {
    double sign = 1.0;      ///< between two signs
    double stuck = 5.0;     ///< of ranks waiting for one another; no network delays a message this long
    double warning = 10.0;  ///< of silence before the first warning; doubled by each warning
    double silence = 600.0; ///< of silence before the job ends; 0: never
  };
  /// Called with the finding; `end` need not return. Only rank 0 warns.
  struct Actions {
    std::function<void(const std::string&)> warn, end;
  };
  static Actions warnAndEndJob(); ///< `end` is endJob with exit code 1

  /// Watches until the end of the scope; only one at a time. Construction is collective, and so is
  /// destruction unless an exception causes it.
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
  Sign _sign; ///< in flight to rank 0 while `_request` is
  Request _request;
  Clock::time_point _start = Clock::now();
  double _told = 0.0, _sent = 0.0, _looked = 0.0, _attentive_since = 0.0, _next_warning;
  bool _told_of_wait = false, _ending = false;
};

} // namespace partita
