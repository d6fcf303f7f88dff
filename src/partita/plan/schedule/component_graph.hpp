#pragma once

#include "partita/plan/schedule/operator_schedule.hpp"

#include <cstddef>
#include <vector>

namespace partita::detail {

/// The operators of a component in topological order, with what lower bounds need.
struct ComponentGraph {
  explicit ComponentGraph(const ScheduleTask& task);

  /// The time of the fastest mode.
  double fastest(std::size_t i) const { return _fastest[i]; }
  bool uses(std::size_t i, bool tensor) const {
    return operators[i].type == CoreType::both || (operators[i].type == CoreType::tensor) == tensor;
  }

  /// Weights of the two kinds of core; the weights of all cores add up to 1. An operator on one core fills
  /// its core's share of the time, and one on all cores fills all of the time. The cheaper mode is a lower
  /// bound of what the operator adds.
  struct Energy {
    double tensor = 0.0, vector = 0.0; ///< weight of a core
    std::vector<double> least;         ///< per operator
  };

  std::size_t size = 0;
  int tensor_cores = 1, vector_cores = 1; ///< no more than useful
  std::vector<Operator> operators;
  std::vector<int> positions; ///< the operators' positions in the task
  std::vector<std::vector<int>> before, after;
  std::vector<double> tails; ///< longest path from an operator's start to the end
  std::vector<Energy> energies;

 private:
  /// No schedule gains from more cores of a kind. Fused operators may need core numbers that others do not
  /// use.
  int usefulCores(bool tensor) const;

  std::vector<double> _fastest;
};

} // namespace partita::detail
