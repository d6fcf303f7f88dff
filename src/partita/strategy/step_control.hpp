#pragma once

#include "partita/plan/run_length.hpp"
#include "partita/strategy/stage_updater.hpp"

#include <vector>

namespace partita {

/// What may happen to a run between two steps: it is checkpointed, or it ends early. Strategies call this
/// interface, and the run loop decides. This default never ends a run and saves nothing.
class StepControl {
 public:
  virtual ~StepControl() = default;

  /// Strategies pass every new updater here before it changes anything.
  virtual void begin(StageUpdater& updater) { (void)updater; }

  /// Restores a new updater to where the run continues: its step, the state of its optimiser, and the sums of
  /// its stage's loss since the last report. Returns whether all of `kept()` that is required was found as
  /// well.
  virtual bool restore(const ExecSpace& space, StageUpdater& updater) {
    (void)space;
    (void)updater;
    return false;
  }

  /// For ranks at their own pace, at any time: should all of them come together soon and call `afterStep`?
  /// Only the positions of rank 0 count: where the run is, and where it will be after the steps that are
  /// handed out. They would come together in about `seconds`.
  virtual bool wantsMeeting(const Position& position, const Position& soon, double seconds) {
    (void)position, (void)soon, (void)seconds;
    return false;
  }
  /// All ranks begin an evaluation between two steps.
  virtual void evaluates() {}
  /// It has taken these seconds.
  virtual void evaluated(double seconds) { (void)seconds; }
  /// Numbers of the strategy that the checkpoint of the next `afterStep` keeps, summed over all ranks. Every
  /// rank passes the same number of them.
  virtual void keepNumbers(const std::vector<double>& numbers) { (void)numbers; }
  /// The numbers that a continued run has kept; empty: none.
  virtual std::vector<double> keptNumbers() const { return {}; }

  /// Every rank calls this after each step of the run, with the updaters of its stages that are being
  /// trained. Returns true, on every rank alike, if the run ends here.
  virtual bool afterStep(const ExecSpace& space, const Position& position,
                         const std::vector<StageUpdater*>& updaters) {
    (void)space;
    (void)position;
    (void)updaters;
    return false;
  }
};

} // namespace partita
