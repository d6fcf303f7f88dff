#pragma once

#include "partita/strategy/hogbatch/run_state.hpp"
#include "partita/strategy/run_context.hpp"

#include <ctime>
#include <utility>

namespace partita {

/// The progress of an asynchronous run in samples, and as steps of `training/batch` samples.
class SampleProgress {
 public:
  SampleProgress(const RunConfig& config, const RunLength& length, std::int64_t samples);

  std::int64_t samples() const { return _samples; } ///< of an epoch
  std::int64_t steps() const { return _steps; }     ///< of the run
  /// Samples of an epoch that the run trains: fewer in the last one if the deck sets a number of steps.
  std::int64_t end(std::int64_t epoch) const;
  /// The step after `done` samples of an epoch.
  std::int64_t step(std::int64_t epoch, std::int64_t done) const;
  /// Epoch and position at which a run continues that another strategy has trained up to `step`.
  std::pair<std::int64_t, std::int64_t> place(std::int64_t step) const;

 private:
  std::int64_t _samples, _batch, _per_epoch, _steps;
};

/// Rows of the history and of the workers, for rank 0. The references must outlive the object.
class CourseReport {
 public:
  CourseReport(const RunContext& context, const HogbatchState& state);

  /// Stops the time until `resume`. Returns the seconds of work in the run.
  double rest();
  /// Starts the time again after step `step`. Rows of earlier steps have been written.
  void resume(std::int64_t step);
  double secondsOfRun() const { return _state.seconds + sinceBegun(); } ///< of work so far
  /// Samples of a batch that has ended.
  void count(std::int64_t samples) { _samples += static_cast<double>(samples); }
  /// Is a row due after this step? `last`: the run ends here.
  bool due(std::int64_t step, bool last) const;
  void writeStep(std::int64_t step, double learning_rate);
  void writeWorkers(std::int64_t step) const;
  /// The workers, with their ranks in the job.
  std::vector<WorkerCounts> named() const;

 private:
  double sinceBegun() const { return _rests ? 0.0 : secondsSince(_begun); }
  double worked() const;
  double processorTime() const;
  double speed();

  const RunContext& _context;
  const HogbatchState& _state;
  std::int64_t _every, _written = 0;                        ///< steps
  double _samples = 0.0, _speed = 0.0;                      ///< since `_since`; per second before
  Clock::time_point _since = Clock::now(), _begun = _since; ///< the last row; the last meeting
  bool _rests = false;                                      ///< between `rest` and `resume`
  std::clock_t _processor_begun = std::clock();             ///< at `_begun`
  double _worked = 0.0, _processor = 0.0;                   ///< s, of this process before `_begun`
};

} // namespace partita
