#pragma once

#include "partita/plan/hogbatch/batch_controller.hpp"
#include "partita/plan/hogbatch/update_scale.hpp"

#include <string>
#include <vector>

namespace partita {

/// A worker as a model of its time sees it: n examples take overhead + n / speed seconds.
struct WorkerSpeed {
  std::size_t group = 0;
  std::int64_t lanes = 1;
  double overhead = 0.0; ///< seconds per batch: messages, copies and merging
  double speed = 1.0;    ///< examples per second beyond that
  std::string name;      ///< for people

  double seconds(double examples) const { return overhead + examples / speed; }
};

/// Workers of unequal speed, and the rules by which they train one model. In step (WorkerRule::synchronous)
/// each worker is a group of its own.
struct WorkerMix {
  BatchRules rules;
  std::vector<WorkerGroup> groups;
  std::vector<WorkerSpeed> workers;
  std::int64_t examples = 1; ///< of an epoch
  RateScale rate;
  StalenessScale staleness;

  /// Updates per second of a group whose sizes are `size`, as the rule counts them: beta weights those of
  /// shared workers.
  double updateRate(std::size_t group, double size) const;
  /// Examples per second of a group whose sizes are `size`.
  double exampleRate(std::size_t group, double size) const;
};

/// What closed forms say about the long run, without the ends of epochs.
struct Balance {
  std::vector<double> shares; ///< of each group in the updates, as the rule counts them
  std::vector<double> sizes;  ///< examples behind an update of each group, on average
  bool equal = false;         ///< do the sizes that the bounds allow make the groups update equally often?
  double examples_per_second = 0.0;
};

/// Sizes that stay as they start.
Balance fixedBalance(const WorkerMix& mix);
/// Sizes that adapt. If the bounds allow it, all groups get the same rate of updates, half-way between the
/// least and the greatest that is possible, on a logarithmic scale; where it settles depends on the course.
/// Otherwise the fastest groups stay at their upper bound, the slowest at their lower one, and a group
/// between them keeps its first size unless that makes it the fastest or slowest.
Balance adaptiveBalance(const WorkerMix& mix);
/// Of two groups with one lane each, common bounds, no overhead, and speeds 1 : r: the share of the slow one,
/// 1/2 if r <= upper/lower, otherwise 1 / (1 + r lower/upper).
double slowShare(double ratio, double lower, double upper);
/// How much longer an epoch takes with adaptive sizes than with those of the start.
double priceOfBalance(const WorkerMix& mix);

} // namespace partita
