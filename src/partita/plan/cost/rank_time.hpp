#pragma once

#include "partita/plan/cost/stage_time.hpp"

namespace partita {

/// What a rank does in a step of its stages.
struct RankTime {
  ComputeTime compute;
  Exchange sums{ExchangeKind::gradients}; ///< over replicas
  Exchange norms{ExchangeKind::norm};     ///< sums of statistics over replicas
  std::vector<Exchange> of_parts;         ///< with the other parts of its stages

  double parts() const {
    double seconds = 0.0;
    for (const Exchange& exchange : of_parts) seconds += exchange.seconds;
    return seconds;
  }
  double total() const { return compute.total() + sums.seconds + norms.seconds + parts(); }

  /// Adds equal passes of a stage.
  void add(const StageTime& stage, double count) {
    compute.forward += count * stage.forward();
    compute.backward += count * stage.backward();
    for (const Exchange& exchange : stage.exchanges) addExchange(of_parts, count * exchange);
  }
};

/// The messages and bytes of the rank that sends most: over replicas, and separately to other parts.
class MostSent {
 public:
  void see(const RankTime& rank) {
    see(rank.sums, _sums);
    see(rank.norms, _norms);
    if (bytesOf(rank.of_parts) > bytesOf(_of_parts)) _of_parts = rank.of_parts;
  }
  void replaceIn(Exchange& sums, Exchange& norms, std::vector<Exchange>& of_parts) const {
    replace(sums, _sums);
    replace(norms, _norms);
    takeTraffic(of_parts, _of_parts);
  }

 private:
  static void replace(Exchange& exchange, const Exchange& other) {
    exchange.messages = other.messages;
    exchange.bytes = other.bytes;
  }
  static void see(const Exchange& exchange, Exchange& most) {
    if (exchange.bytes > most.bytes) most = exchange;
  }

  Exchange _sums, _norms;
  std::vector<Exchange> _of_parts;
};

} // namespace partita
