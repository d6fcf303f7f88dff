#pragma once

#include "partita/comm/loss_watch.hpp"
#include "partita/comm/shared_window.hpp"
#include "partita/data/dataset.hpp"
#include "partita/data/order.hpp"
#include "partita/strategy/local_stage.hpp"
#include "partita/strategy/observer.hpp"
#include "partita/strategy/schedule_trace.hpp"
#include "partita/strategy/step_control.hpp"
#include "partita/strategy/training_clock.hpp"

#include <string>

namespace partita {

/// A run at the last point where its ranks came together: from there it continues without lost ranks.
struct MeetingState {
  /// How far the joint work of the ranks at this point is. `none`: they have not met yet, so the run would
  /// start again.
  enum class Work { none, due, begun, done };

  Work work = Work::none;
  bool evaluates = false;      ///< the work includes an evaluation
  bool asked = false;          ///< this rank has been asked for a checkpoint
  std::int64_t kept_step = -1; ///< run step of the last checkpoint; negative: not known
  Position position;
  RunTimes times;  ///< of this rank
  Traffic traffic; ///< of this rank
  // On rank 0:
  std::vector<double> numbers;       ///< of the strategy, as in a checkpoint
  std::vector<WorkerCounts> workers; ///< with their ranks in the job
  std::vector<Real> parameters;      ///< of the whole network
  std::vector<WorkerCounts> lost;    ///< workers that have been lost

  bool any() const { return work != Work::none; }
};

class ActivationFile;
using ActivationFiles = std::vector<std::shared_ptr<const ActivationFile>>;

/// What every strategy works on: the deck, this rank's place and stages, the data, the observer, the control
/// between steps, and the position to start from.
struct RunContext {
  const RunConfig& config;
  const Partition& partition;
  Grid& grid;
  const DataSets& sets;
  const std::vector<std::unique_ptr<LocalStage>>& stages; ///< of this rank
  Observer& observer;
  StepControl& control;
  TrainingClock& clock;
  RunLength length;
  Position start;                ///< the parameters are those of this position
  std::string scratch_directory; ///< for files that are removed when the run ends
  const SharedWindow* window =
      nullptr;                     ///< memory for a model that ranks share; null: the strategy needs none
  std::string decisions_file = {}; ///< of an asynchronous run; empty: none is written
  ScheduleTrace* trace = nullptr;  ///< records the operations of the first steps; null: no trace
  LossWatch* losses = nullptr;     ///< null: a rank that dies ends the job
  MeetingState* meeting = nullptr; ///< from which the remaining ranks continue after a loss; null: none
  ActivationFiles activation_files = {}; ///< see StrategyRules::takeFiles

  std::uint64_t seed() const { return static_cast<std::uint64_t>(config.run.seed); }
  /// The rows of this replica in the training batches from number `first` on.
  BatchReader::RowsOf trainingOrder(std::int64_t first) const {
    return partita::trainingOrder(sets.train.size(), seed(), config.training.batch, grid.replica(),
                                  grid.replicas(), first);
  }
  /// If the last step of the updater is one that reports, passes its report to the observer. `number` and
  /// `flops`: as in StageUpdater::report. Collective over the replicas.
  void report(const ExecSpace& space, StageUpdater& updater, const Position& position, int number,
              double flops) const {
    if (!updater.reported()) return;
    StepReport report = updater.report(space, number, flops);
    report.run_step = length.runStep(position);
    if (grid.speaks()) observer.onStep(report);
  }
};

} // namespace partita
