#pragma once

#include "partita/comm/wait.hpp"

#include <array>
#include <cstdint>
#include <optional>
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
  int peer = -1; ///< number in the job, as in WaitedFor
  std::int64_t number = 0;
  std::array<char, 32> what{};
  int other_peer = -1; ///< rank whose message would also end the wait; -1: none
  std::int64_t other_number = 0;
  std::array<char, 32> other_what{};
  int stage = 0; ///< see WaitedFor
  std::int64_t live = 0;
};

/// The last report of every rank of a communicator, and the conclusions from these reports. Times are seconds
/// of the clock of the rank that keeps the table.
class WaitTable {
 public:
  /// `job_ranks`: the numbers of these ranks in the job, which increase. Signs older than `fresh` say nothing
  /// about the present.
  WaitTable(std::vector<int> job_ranks, double fresh, double now);

  void take(int rank, const Sign& sign, double now);

  /// Ranks that have all waited for at least `seconds`, and only for one another, so nothing can free them.
  /// Empty if there are none.
  std::vector<int> stuck(double now, double seconds) const;

  /// The ranks that have given no response for at least `seconds` while another rank waits.
  std::vector<int> silent(double now, double seconds) const;

  /// What each rank is doing, with its number in the job, most suspicious first; ranks doing the same share a
  /// line, at most `most` lines.
  std::string text(double now, std::size_t most = 24) const;

 private:
  struct Row {
    Sign sign;
    double reported; ///< time of the report
  };
  bool isFresh(const Row& row, double now) const { return now - row.reported <= _fresh; }
  bool waits(const Row& row, double now) const { return row.sign.waited >= 0.0 && isFresh(row, now); }

  std::optional<std::size_t> rowOf(int job_rank) const;

  double _fresh;
  std::vector<int> _job_ranks; ///< by row
  std::vector<Row> _rows;
};

} // namespace partita
