#pragma once

#include "partita/plan/run_length.hpp"
#include "partita/strategy/stage_updater.hpp"

#include <vector>

namespace partita {

/// What may happen to a run between two steps: it is kept, or it ends early. Strategies call this; who
/// decides is the run loop. This one lets every run go on to its end and keeps nothing.
class StepControl {
 public:
  virtual ~StepControl() = default;

  /// Strategies show every new updater before it changes anything.
  virtual void begin(StageUpdater& updater) { (void)updater; }

  /// Puts a fresh updater where the run is continued: its step, the state of its optimiser, and the sums of
  /// its stage's loss since the last report. Returns whether there was all that it keeps besides.
  virtual bool restore(const ExecSpace& space, StageUpdater& updater) {
    (void)space;
    (void)updater;
    return false;
  }

  /// Every rank calls it after each step of the run, with the updaters of those of its stages that are under
  /// way. Returns true where the run ends here, on every rank alike.
  virtual bool afterStep(const ExecSpace& space, const Position& position,
                         const std::vector<StageUpdater*>& updaters) {
    (void)space;
    (void)position;
    (void)updaters;
    return false;
  }
};

} // namespace partita
