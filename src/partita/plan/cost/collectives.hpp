#pragma once

#include <cstdint>
#include <vector>

namespace partita {

/// Messages of equal size that a rank sends one after another in a collective operation.
struct Messages {
  double count = 0.0, bytes = 0.0; ///< bytes of one message
};

/// What one message takes: latency + bytes / bandwidth, or a table of measured times.
struct Link {
  struct Point {
    double bytes = 0.0, seconds = 0.0;
  };

  double latency = 0.0;          ///< seconds
  double seconds_per_byte = 0.0; ///< 1 / bandwidth
  std::vector<Point> measured{}; ///< sorted by size; empty: the two numbers above hold

  /// Seconds of a message of `bytes`. Between measured sizes, time and size are interpolated on logarithmic
  /// scales. A shorter message takes as long as the shortest one measured. A longer one takes longer than the
  /// longest one in proportion to its size.
  double seconds(double bytes) const;
  /// Seconds of the shortest message.
  double shortest() const { return measured.empty() ? latency : measured.front().seconds; }
  /// Seconds of messages that `flows` equal flows send over the same cable. Each gets its share of the
  /// bandwidth; the latency stays the same (ParaDL's contention factor phi).
  double seconds(const Messages& messages, double flows = 1.0) const;
};

// Messages of a rank in collective operations on `ranks` ranks (ParaDL, technical report, section 4; Thakur,
// Rabenseifner and Gropp, IJHPCA 19, 2005). `bytes` is the size of the whole vector unless stated otherwise.
// One rank sends nothing.

Messages pointToPoint(double bytes);
Messages ringAllReduce(std::int64_t ranks, double bytes);
/// Do sums over ranks use a ring? Sums of few values use a tree, which needs fewer messages.
bool usesRing(std::int64_t ranks, double bytes);
/// By ring or tree, as `usesRing` decides.
Messages allReduce(std::int64_t ranks, double bytes);
/// `bytes_per_rank`: what each rank contributes.
Messages ringAllGather(std::int64_t ranks, double bytes_per_rank);
/// A reduction to one rank and a broadcast from there.
Messages treeAllReduce(std::int64_t ranks, double bytes);

} // namespace partita
