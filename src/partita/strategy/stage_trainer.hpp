#pragma once

#include "partita/comm/reducer.hpp"
#include "partita/core/clock.hpp"
#include "partita/optim/gradient_norm.hpp"
#include "partita/optim/loss_scale.hpp"
#include "partita/optim/optimiser.hpp"
#include "partita/strategy/local_stage.hpp"
#include "partita/strategy/observer.hpp"

#include <chrono>
#include <functional>
#include <optional>

namespace partita {

/// How the learning rate of a stage differs from the deck's.
struct StageRate {
  StageRate(double rate_factor = 1.0, bool hold = false) : factor(rate_factor), held(hold) {}
  double factor;
  bool held; ///< a cosine schedule is replaced by `heldLearningRate`
};

/// Updates the parameters of one stage: sums its gradient over the replicas, clips it, steps, and reports.
/// Where numbers of 16 bits may overflow, ranks agree on each step before any of them changes anything: see
/// `overflowAnywhere`.
class StageUpdater {
 public:
  /// `steps` is the length of the schedule.
  StageUpdater(const RunConfig& config, LocalStage& local, Grid& grid, StageRate stage_rate,
               std::int64_t steps, std::int64_t steps_per_epoch);
  ~StageUpdater();
  StageUpdater(const StageUpdater&) = delete;
  StageUpdater& operator=(const StageUpdater&) = delete;

  /// From now on `update` waits for no sums over replicas where it need not: parameters are updated when the
  /// next forward pass of the stage wants them, and sums go on meanwhile. Whoever else reads parameters or
  /// optimiser calls `finishUpdate` before, the end of the training included. No bit changes. Steps that
  /// need the whole gradient at once (clipped, checked, reported), or whose state of the optimiser lies
  /// elsewhere, are taken as before.
  void updateLate();
  /// What is left of the last update.
  void finishUpdate(const ExecSpace& space);

  /// Before the first forward pass of a step, which changes statistics and scores: they are kept where it
  /// may be left out.
  void beginStep(const ExecSpace& space);
  /// To be handed to the backward pass: starts all-reduces while it runs.
  Stage::GradientReady gradientReady(const ExecSpace& space);
  /// Weight of a sample in the loss, to be handed to it: one over the batch, times the loss scale.
  Real lossWeight() const { return static_cast<Real>(_scale.value() / static_cast<double>(_batch)); }
  /// Completes the gradient, summed over the replicas, and measures it where it is to be clipped, checked or
  /// reported; else `update` completes it part by part, while sums of others are still under way.
  void completeGradient(const ExecSpace& space);
  /// Squared norm of the completed gradient; waits for the device.
  double squaredNorm(const ExecSpace& space) const { return _norm.squaredNorm(space); }
  /// The same tensor by tensor.
  std::vector<double> tensorSquares(const ExecSpace& space) const { return _norm.squares(space); }
  /// To be called between the loss and the backward pass of a batch on `tape` that began with `in`: throws
  /// RunError where the loss is not finite, unless such a step is left out. On a device this is noticed only
  /// by steps that report: no other waits for it.
  void checkLoss(const ExecSpace& space, const Tape& tape, const Matrix& in) const;
  /// The same at any step, on a device too.
  void failIfDiverged(const ExecSpace& space, const Tape& tape, const Matrix& in) const;
  /// May this step overflow, so that it has to be agreed on? The same on every rank.
  bool checksOverflow() const { return _checks; }
  /// Is the completed gradient, or the loss, not finite? Waits for the device.
  bool overflowed(const ExecSpace& space) const;
  /// What is to be called each time before parameters and optimiser change.
  void beforeUpdate(std::function<void()> call) { _before_update = std::move(call); }
  /// One optimiser step, clipped by the norm of the gradient of the stage, or by the root of `squares` where
  /// others take part.
  void update(const ExecSpace& space, std::optional<double> squares = std::nullopt);
  /// In place of a step that overflowed somewhere: the batch is over, nothing is learnt from it, statistics
  /// are again what they were, and so are scores where the loss was not finite.
  void leaveOut(const ExecSpace& space);

  /// So many losses make a step: microbatches of a batch.
  void setLossesAStep(std::int64_t losses) { _losses_a_step = losses; }

  LocalStage& local() { return _local; }
  const Optimiser& optimiser() const { return *_optimiser; }
  const LossScale& lossScale() const { return _scale; }
  void resumeScale(double value, std::int64_t clean_steps); ///< as it was in the run before
  /// Goes on as if `step` steps had been taken; the optimiser's state is put in by the caller.
  void resume(std::int64_t step, std::int64_t optimiser_steps);

  std::int64_t step() const { return _step; }
  std::int64_t steps() const { return _steps; }
  /// Is the step now under way one that reports?
  bool reports() const { return (_step + 1) % _log_every == 0 || _step + 1 == _steps; }
  /// What happened since the last report, over all replicas; waits for the device. Collective over the
  /// replicas.
  StepReport report(const ExecSpace& space, std::int64_t stage_number, double flops_per_sample);
  /// Time spent elsewhere (an evaluation) is not the stage's.
  void pause(double seconds) {
    _since += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

 private:
  bool clips() const { return _section.clip_norm > 0.0; }
  bool updatesLate() const { return _late && !reports(); }
  void updatePart(const ExecSpace& space, std::int64_t begin, std::int64_t end);
  double rateNow() const;

  LocalStage& _local;
  const Communicator& _peers;
  OptimiserSection _section;
  std::unique_ptr<Optimiser> _optimiser;
  GradientReducer _reducer;
  GradientNorm _norm;
  bool _checks, _late = false;
  Vector _statistics; ///< of the stage before this step; empty where no step is left out
  LossScale _scale;
  std::int64_t _batch, _log_every, _steps, _steps_per_epoch;
  std::int64_t _step = 0, _reported = 0, _losses_a_step = 1;
  double _rate = 0.0;
  StageRate _stage_rate;
  std::function<void()> _before_update;
  Clock::time_point _since = Clock::now();
};

/// Has the gradient or the loss of any of these updaters overflowed, on any rank of `comm`? Then all of them
/// leave the step out, and else all take it. An all-reduce of one integer where overflows are looked for, and
/// nothing else; behind `completeGradient` of all.
bool overflowAnywhere(const ExecSpace& space, const std::vector<const StageUpdater*>& updaters,
                      const Communicator& comm);

/// What is left of the last update of each: before anyone but a forward pass reads what they update.
void finishUpdates(const ExecSpace& space, const std::vector<StageUpdater*>& updaters);

/// Trains one stage alone with its own loss.
class StageTrainer {
 public:
  StageTrainer(const RunConfig& config, LocalStage& local, Grid& grid, StageRate stage_rate,
               std::int64_t steps, std::int64_t steps_per_epoch);

  /// Puts a batch on the stage's tape, with the parameters before this step's update.
  void forward(const ExecSpace& space, const Matrix& in);
  /// Loss, backward pass and update for the batch of the last `forward`.
  void learn(const ExecSpace& space, const Targets& targets);

  LocalStage& local() { return _local; }
  StageUpdater& updater() { return _updater; }

 private:
  LocalStage& _local;
  const Communicator& _peers;
  StageUpdater _updater;
  Pass passOfStep() const;

  const RunConfig& _config;
  const Grid& _grid;
  Matrix _in;
};

} // namespace partita
