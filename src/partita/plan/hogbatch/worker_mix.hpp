#pragma once

#include "partita/plan/hogbatch/batch_controller.hpp"
#include "partita/plan/hogbatch/update_scale.hpp"

#include <functional>
#include <string>
#include <vector>

namespace partita {

/// The time model of a worker: n examples take overhead + n / speed seconds.
struct WorkerSpeed {
  std::size_t group = 0;
  std::int64_t lanes = 1;
  double overhead = 0.0; ///< seconds per batch: messages, copies and merging
  double speed = 1.0;    ///< examples per second beyond that
  std::string name;      ///< for reports

  double seconds(double examples) const { return overhead + examples / speed; }
};

/// Workers of unequal speed, and the rules by which they train one model. With WorkerRule::synchronous each
/// worker is a group of its own.
struct WorkerMix {
  BatchRules rules;
  std::vector<WorkerGroup> groups;
  std::vector<WorkerSpeed> workers;
  std::int64_t examples = 1; ///< of an epoch
  RateScale rate;
  StalenessScale staleness;
  std::function<double(double)> chance; ///< the seconds of a batch, from those expected; null: exactly those

  /// Updates per second of a group whose sizes are `size`, as the rule counts them: beta weights those of
  /// shared workers.
  double updateRate(std::size_t group, double size) const;
  /// Examples per second of a group whose sizes are `size`.
  double exampleRate(std::size_t group, double size) const;
};

/// Closed forms for a long run, without the ends of epochs.
struct Balance {
  std::vector<double> shares; ///< of each group in the updates, as the rule counts them
  std::vector<double> sizes;  ///< examples per update of each group, on average
  bool equal = false;         ///< can all groups update equally often within their bounds?
  double examples_per_second = 0.0;
};

/// Sizes that stay as they start.
Balance fixedBalance(const WorkerMix& mix);
/// Sizes that adapt. If the bounds allow it, all groups get the same rate of updates: the geometric mean of
/// the least and the greatest possible rate. Where the rate of a run settles depends on its course.
/// Otherwise the fastest groups stay at their upper bound, the slowest at their lower one, and a group
/// between them keeps its first size unless that makes it the fastest or slowest.
Balance adaptiveBalance(const WorkerMix& mix);

} // namespace partita
