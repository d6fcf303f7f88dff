#pragma once

#include "partita/plan/hogbatch/worker_mix.hpp"

namespace partita {

/// What a worker has done on the virtual clock.
struct WorkerCourse {
  std::int64_t batches = 0, updates = 0, dropped = 0, examples = 0;
  std::int64_t batch_first = 0,
               batch_last = 0; ///< examples; a short batch at the end of an epoch is left out
  double busy = 0.0;           ///< seconds
  double staleness_sum = 0.0;  ///< over its updates, including dropped ones
  std::int64_t staleness_max = 0;

  double stalenessMean() const;
};

/// A run on the virtual clock.
struct Course {
  double seconds = 0.0;
  std::int64_t examples = 0;
  std::vector<WorkerCourse> workers;
  std::vector<double> shares; ///< of each group in the updates, as the rule counts them
  double progress = 0.0;      ///< sum over all updates of the factors on their learning rate

  double examplesPerSecond() const { return static_cast<double>(examples) / seconds; }
  double progressPerSecond() const { return progress / seconds; }
  double stalenessMean() const;
  std::int64_t stalenessMax() const;
};

/// An update on the virtual clock, or one that was dropped. Synchronous runs have none.
struct TimedUpdate {
  double seconds = 0.0; ///< when its batch ended
  std::size_t worker = 0;
  std::int64_t epoch = 0, first = 0, count = 0; ///< its examples, in the order of the epoch
  std::int64_t read = 0, applied = 0; ///< versions of the model; `applied` is negative if it was dropped
  double factor = 1.0;                ///< on its learning rate
};

/// Plays whole epochs with the controller and the dispatcher of a run. If workers become idle at the same
/// time, the first is served first; at the start of an epoch, the one with the fewest examples. All wait at
/// the end of an epoch, which takes no time itself. `updates`: receives them in order, or null.
Course playCourse(const WorkerMix& mix, std::int64_t epochs, std::vector<TimedUpdate>* updates = nullptr);

} // namespace partita
