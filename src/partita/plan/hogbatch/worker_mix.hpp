#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/hogbatch/batch_controller.hpp"
#include "partita/plan/hogbatch/update_scale.hpp"

#include <functional>
#include <string>
#include <vector>

namespace partita {

/// The time model of a worker: n examples take overhead + n / speed seconds.
struct WorkerSpeed {
  std::size_t group = 0;
  double overhead = 0.0; ///< seconds per batch: messages, copies and merging
  double speed = 1.0;    ///< examples per second beyond that
  std::string name;      ///< for reports
  double merge = 0.0;    ///< of the overhead: changing the model
  double order = 0.0;    ///< in step: seconds of an order to change the model, and of the answer

  double seconds(double examples) const { return overhead + examples / speed; }
  /// In step: until the gradient is there, and in the worker's turn to change the model.
  double gradientSeconds(double examples) const { return seconds(examples) - merge; }
  double turnSeconds() const { return order + merge; }
};

/// Keys of the deck that do not change a course, but may not suit another way to use the workers.
struct MixKeys {
  ReplicaMerge merge = ReplicaMerge::delta;
  bool tolerate = false;
  std::vector<std::int64_t> slowdown; ///< of the first workers
  std::int64_t batch_shared = 0;      ///< 0: training/batch
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
  std::vector<double> speeds; ///< of all groups, by which steps are divided; empty: they are measured
  MixKeys keys;
  std::function<double(double)> chance; ///< the seconds of a batch, from those expected; null: exactly those
};

} // namespace partita
