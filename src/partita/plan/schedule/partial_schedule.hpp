#pragma once

#include "partita/plan/schedule/bit_set.hpp"
#include "partita/plan/schedule/component_graph.hpp"

#include <utility>
#include <vector>

namespace partita::detail {

/// The next operator to place, with its mode, cores and time.
struct Move {
  int op = -1;
  bool all_cores = false;
  int tensor_core = -1, vector_core = -1; ///< -1: any that is free
  double start = 0.0, end = 0.0;
};

/// Some operators of a component, placed in the order of their starts. Further operators start at `now` or
/// later.
class PartialSchedule {
 public:
  explicit PartialSchedule(const ComponentGraph& graph);

  /// The moves worth trying: those that start before every other one could have ended.
  std::vector<Move> moves(const ComponentGraph& graph) const;
  /// This schedule with one more operator.
  PartialSchedule after(const ComponentGraph& graph, const Move& move) const;
  /// A lower bound of all complete schedules that begin like this one.
  double bound(const ComponentGraph& graph) const;
  /// Can everything that may follow `other` also follow this schedule of the same operators, at the same
  /// times?
  bool dominates(const PartialSchedule& other) const;

  const BitSet& placed() const { return _placed; }
  std::size_t count() const { return _count; }
  double makespan() const;

 private:
  /// When the two cores of one number become free: never if a kind has fewer cores.
  using CorePair = std::pair<double, double>;

  /// A pair of cores, or any cores if the number is -1, and when they are free.
  struct FreeCores {
    int number = -1;
    double tensor = 0.0, vector = 0.0;
  };

  /// One choice for each distinct pair of times at which cores become free.
  std::vector<FreeCores> choices(const ComponentGraph& graph) const;
  /// When all predecessors have ended; infinite if one is not placed yet.
  double readyTime(const ComponentGraph& graph, std::size_t op) const;
  double coresFree(const ComponentGraph& graph, bool tensor) const;
  void coreTimes(const ComponentGraph& graph, bool tensor);
  void settle(const ComponentGraph& graph);

  BitSet _placed;
  std::size_t _count = 0;
  int _fused_left = 0; ///< operators not yet placed that need a pair of cores
  double _now = 0.0;
  std::vector<double> _ends;    ///< of placed operators that end after `now`; 0 for all others
  std::vector<CorePair> _cores; ///< while fused operators are left
  /// All times on which further operators depend, none earlier than `now`. Schedules of the same operators
  /// have the same entries in the same order.
  std::vector<double> _profile;
};

} // namespace partita::detail
