#pragma once

#include "partita/comm/wait.hpp"

#include <array>
#include <string>
#include <vector>

namespace partita {

/// What a rank tells of itself; plain data, which travels as bytes.
struct Sign {
  static Sign ofWork() { return {}; }
  static Sign ofWait(const WaitedFor& what, double seconds);

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

} // namespace partita
