#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

/// What a stage reports after some steps. Plain data, sent to rank 0 as bytes.
struct StepReport {
  std::int64_t stage = 0;     ///< from 1; 0: the joined network of several stages
  std::int64_t epoch = 0;     ///< of the step, from 1
  std::int64_t step = 0;      ///< steps taken by this stage so far
  std::int64_t run_step = 0;  ///< RunLength::runStep of `step`
  double loss = 0.0;          ///< mean since the last report
  double accuracy = -1.0;     ///< on the training rows since the last report, 0..1; negative: not decoded
  double learning_rate = 0.0; ///< of the last step
  double samples_per_second = 0.0;
  double flops_per_second = 0.0;
  double gradient_norm = 0.0; ///< of the last step; negative: not measured
};

/// Accuracies 0..1 on a held-out set.
struct EvaluationReport {
  std::int64_t stage = 0; ///< the highest one trained so far, from 1; 0: the joined network of several
  std::int64_t epoch = 0, step = 0, run_step = 0;
  std::vector<double> stage_accuracy; ///< decoded by each trained stage within the joined network
  std::vector<double> stage_loss;
  std::vector<double> stage_alone; ///< see Evaluation::alone
  bool joined = false;             ///< does the last entry belong to the joined network?
};

/// What a worker of an asynchronous run has done so far.
struct WorkerCounts {
  std::int64_t rank = 0;
  bool shared = false;                          ///< updates the model in place
  std::int64_t updates = 0;                     ///< of the model
  std::int64_t examples = 0, batches = 0;       ///< finished
  std::int64_t dropped = 0;                     ///< updates that were too old
  std::int64_t overwritten = 0;                 ///< updates of others
  std::int64_t batch_first = 0, batch_last = 0; ///< samples
  double busy_seconds = 0.0;
  double staleness_sum = 0.0; ///< of all batches, in updates
  std::int64_t staleness_max = 0;
  std::int64_t given_away = 0; ///< examples of its batches that others got instead
  std::int64_t lost_step = -1; ///< of the run, at which the worker was lost; negative: not lost
  double lost_seconds = 0.0;   ///< of training until then

  bool isLost() const { return lost_step >= 0; }
  double stalenessMean() const { return batches > 0 ? staleness_sum / static_cast<double>(batches) : 0.0; }
};

/// An evaluation of an asynchronous run that was better than all before it.
struct LossReached {
  double loss = 0.0, seconds = 0.0; ///< `seconds` of training, without evaluations
};

/// The state of all workers after a step of the run.
struct WorkersSnapshot {
  std::int64_t step = 0;
  double seconds = 0.0;          ///< of training, without evaluations
  double coordinator_busy = 0.0; ///< processor time of rank 0 over that time, of this process
  std::vector<WorkerCounts> workers;
  std::vector<LossReached> reached;
};

/// Receives the reports of a strategy; implemented by the run loop.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void onStep(const StepReport& report) = 0; ///< on the ranks of replica 0 that own the stage
  virtual void onEvaluation(const EvaluationReport& report) = 0;              ///< on every rank
  virtual void onWorkers(const WorkersSnapshot& snapshot) { (void)snapshot; } ///< on rank 0, before `onStep`
};

} // namespace partita
