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
  double gradient_norm = 0.0; ///< of the last step
};

/// Accuracies 0..1 on a held-out set.
struct EvaluationReport {
  std::int64_t stage = 0; ///< the highest one trained so far, from 1; 0: the joined network of several
  std::int64_t epoch = 0, step = 0, run_step = 0;
  std::vector<double> stage_accuracy; ///< decoded by each trained stage within the joined network
  std::vector<double> stage_loss;
  bool joined = false; ///< does the last entry belong to the joined network?
};

/// Receives the reports of a strategy; implemented by the run loop.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void onStep(const StepReport& report) = 0; ///< on the ranks of replica 0 that own the stage
  virtual void onEvaluation(const EvaluationReport& report) = 0; ///< on every rank
};

} // namespace partita
