#pragma once

#include "partita/plan/hogbatch/batch_controller.hpp"
#include "partita/strategy/observer.hpp"

#include <optional>

namespace partita {

/// The state of an asynchronous run besides its parameters, while no worker has a batch: counts of the run,
/// of the groups of the controller, and of the workers. A checkpoint stores it as a list of numbers.
struct HogbatchState {
  std::int64_t epoch = 0, cursor = 0;           ///< finished epochs; finished samples of the next one
  std::int64_t batches = 0;                     ///< handed out in the run
  std::int64_t version = 0;                     ///< of the model
  double seconds = 0.0;                         ///< of work, without meetings
  double loss = 0.0, correct = 0.0, rows = 0.0; ///< sums since the last report
  std::vector<GroupState> groups;
  std::vector<WorkerCounts> workers;
  std::vector<LossReached> reached;

  std::vector<double> numbers() const;
  /// Empty if it is not the list of such a state: a file may hold any numbers.
  static std::optional<HogbatchState> from(const std::vector<double>& numbers);
  /// Empty if it is not that of this many groups and workers.
  static std::optional<HogbatchState> from(const std::vector<double>& numbers, std::size_t groups,
                                           std::size_t workers);
};

} // namespace partita
