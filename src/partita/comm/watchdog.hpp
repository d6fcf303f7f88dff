#pragma once

#include "partita/comm/wait.hpp"
#include "partita/core/clock.hpp"

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace partita {

/// What a rank tells of itself; plain data, which travels as bytes.
struct Sign {
  static Sign ofWork() { return {}; }
  static Sign ofWait(const WaitedFor& what, double seconds);

  /// Is this rank stuck only where all others are?
  bool byAll() const { return kind == WaitedFor::Kind::all || kind == WaitedFor::Kind::any; }

  double waited = -1.0; ///< seconds so far; negative: it is at work
  WaitedFor::Kind kind = WaitedFor::Kind::all;
  int peer = -1;
  std::int64_t number = 0;
  std::array<char, 32> what{};
  int other_peer = -1; ///< whose message would do as well; -1: nobody's
  std::int64_t other_number = 0;
  std::array<char, 32> other_what{};
};

/// What all ranks told last, and what follows from it. Times are seconds of the clock of the rank that keeps
/// the table.
class WaitTable {
 public:
  /// A sign older than `fresh` says nothing of now.
  WaitTable(int ranks, double fresh, double now);

  void take(int rank, const Sign& sign, double now);

  /// Ranks that have all waited for `seconds` and only for one another: nothing can free them. Empty: none.
  std::vector<int> stuck(double now, double seconds) const;

  /// The ranks that have given no sign for at least `seconds`, while another one waits.
  std::vector<int> silent(double now, double seconds) const;

  /// What each rank does, most suspicious first; ranks that do the same in one line, at most `most` lines.
  std::string text(double now, std::size_t most = 24) const;

 private:
  struct Row {
    Sign sign;
    double told; ///< when
  };
  bool isFresh(const Row& row, double now) const { return now - row.told <= _fresh; }
  bool waits(const Row& row, double now) const { return row.sign.waited >= 0.0 && isFresh(row, now); }

  double _fresh;
  std::vector<Row> _rows;
};

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
  Clock::time_point _start = Clock::now();
  double _told = 0.0, _sent = 0.0, _looked = 0.0, _attentive_since = 0.0, _next_warning;
  bool _told_of_wait = false, _ending = false;
};

} // namespace partita
