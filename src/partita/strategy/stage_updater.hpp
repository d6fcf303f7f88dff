#pragma once

#include "partita/comm/gradient_exchange.hpp"
#include "partita/core/clock.hpp"
#include "partita/io/run_file.hpp"
#include "partita/optim/gradient_norm.hpp"
#include "partita/optim/loss_scale.hpp"
#include "partita/optim/optimiser.hpp"
#include "partita/strategy/local_stage.hpp"
#include "partita/strategy/observer.hpp"

#include <functional>
#include <optional>

namespace partita {

/// How the learning rate of a stage differs from the deck's.
struct StageRate {
  StageRate(double rate_factor = 1.0, bool hold = false) : factor(rate_factor), held(hold) {}
  double factor;
  bool held; ///< a cosine schedule is replaced by `heldLearningRate`
};

/// The course of a stage's training.
struct UpdateSchedule {
  std::int64_t steps = 0, steps_per_epoch = 0;
  StageRate rate = {};
  std::int64_t losses_per_step = 1; ///< microbatches of a batch
};

/// How a stage learns together with its replicas.
struct ReplicaLink {
  std::unique_ptr<GradientExchange> gradients;
  const Communicator& peers; ///< the replicas, whose losses a report adds up
  std::int64_t samples;      ///< whose gradients meet in a step: a loss is the mean over them
};

/// Replicas that sum their gradients in each step; all outlive the result.
ReplicaLink summedGradients(const RunConfig& config, const LocalStage& local, Grid& grid);
/// Replicas that learn alone, each from its share of a batch; something else keeps them together.
ReplicaLink ownGradients(const RunConfig& config, const Grid& grid);

class StageUpdater;

/// Those who decide on a step together.
struct StepPartners {
  const Communicator& ranks; ///< take the step together or leave it out together
  /// Squared norm of the gradient of all stages that are clipped and reported together; empty: each stage
  /// has a norm of its own.
  std::function<double(const ExecSpace&)> squares = {};
};

/// One step of training, in the only order there is: keeps what may have to be restored, calls `passes`,
/// which leaves the gradients of all `updaters`, completes them, and then updates parameters, or leaves the
/// step out where numbers of 16 bits overflowed on any of the partners' ranks. Returns what `squares` said
/// where it was asked. Throws RunError where a loss is not finite. Collective over the partners where the
/// step may overflow.
std::optional<double> takeStep(const ExecSpace& space, const std::vector<StageUpdater*>& updaters,
                               const StepPartners& partners, const std::function<void()>& passes);

/// Changes the parameters of one stage step by step: completes its gradient, clips it, steps the optimiser,
/// scales the loss, and reports. How the gradient meets those of other ranks is the link's business.
///
/// Where the link overlaps and nothing needs the whole gradient at once (no clipping, no check for overflow,
/// no report, no offload), parameters are updated when the next forward pass wants them, while sums go on.
/// Whoever else reads parameters or optimiser calls `finishUpdate` before, also after the last step. No bit
/// depends on that.
class StageUpdater {
 public:
  StageUpdater(const RunConfig& config, LocalStage& local, ReplicaLink link, const UpdateSchedule& schedule);
  ~StageUpdater();
  StageUpdater(const StageUpdater&) = delete;
  StageUpdater& operator=(const StageUpdater&) = delete;

  /// Completes what is left of the last update.
  void finishUpdate(const ExecSpace& space);

  // For the passes of a step, inside takeStep.

  /// Weight of a sample in the loss: one over the samples whose gradients meet, times the loss scale.
  Real lossWeight() const { return static_cast<Real>(_scale.value() / static_cast<double>(_link.samples)); }
  /// Between the loss and the backward pass of a batch on `tape` that began with `in`: throws RunError where
  /// the loss is not finite, unless such a step is left out. On a device only steps that report notice it: no
  /// other waits for the device.
  void checkLoss(const ExecSpace& space, const Tape& tape, const Matrix& in) const;
  /// To be handed to the last backward pass of the step: the gradient meets others while it runs.
  Stage::GradientReady gradientReady(const ExecSpace& space);

  // Between steps.

  /// Throws RunError where a loss since the last report was not finite; waits for the device.
  void failIfDiverged(const ExecSpace& space, const Tape& tape, const Matrix& in) const;
  /// What is to be called each time before parameters and optimiser change.
  void beforeUpdate(std::function<void()> call) { _before_update = std::move(call); }
  /// What happened since the last report, over all replicas; waits for the device. Collective over the
  /// replicas.
  StepReport report(const ExecSpace& space, std::int64_t stage_number, double flops_per_sample);
  /// Leaves time that was spent elsewhere (an evaluation) out of the next report's samples per second.
  void pause(double seconds) {
    _since += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  /// Squared norms of the last gradient that was measured, tensor by tensor; waits for the device.
  std::vector<double> tensorSquares(const ExecSpace& space) const { return _norm.squares(space); }

  LocalStage& local() { return _local; }
  const Optimiser& optimiser() const { return *_optimiser; }
  const LossScale& lossScale() const { return _scale; }
  std::int64_t step() const { return _step; }
  /// Does the step now under way, or else the next one, report?
  bool reports() const { return (_step + 1) % _log_every == 0 || _step + 1 == _schedule.steps; }

  /// Adds a strategy's own vector of the stage's length to what checkpoints keep. Before the first step.
  void keep(Optimiser::State state) { _kept.push_back(std::move(state)); }
  const std::vector<Optimiser::State>& kept() const { return _kept; }
  /// All that a checkpoint keeps besides the parameters: the optimiser's state and what is kept.
  std::vector<Optimiser::State> states() const;
  UpdateState updateState() const;
  /// Goes on after `step` steps; the caller has put in the parameters and `states`.
  void resume(std::int64_t step, const UpdateState& state);

 private:
  friend std::optional<double> takeStep(const ExecSpace&, const std::vector<StageUpdater*>&,
                                        const StepPartners&, const std::function<void()>&);
  void beginStep(const ExecSpace& space);
  void completeGradient(const ExecSpace& space);
  bool overflowed(const ExecSpace& space) const;
  void update(const ExecSpace& space, std::optional<double> squares);
  void leaveOut(const ExecSpace& space);

  bool clips() const { return _section.clip_norm > 0.0; }
  bool updatesLate() const { return _late && !reports(); }
  void updatePart(const ExecSpace& space, std::int64_t begin, std::int64_t end);
  void setScaleOfGradients() { _link.gradients->setScale(_scale.value()); }
  double rateNow() const;

  LocalStage& _local;
  ReplicaLink _link;
  OptimiserSection _section;
  UpdateSchedule _schedule;
  std::unique_ptr<Optimiser> _optimiser;
  std::vector<Optimiser::State> _kept;
  GradientNorm _norm;
  bool _checks;            ///< may a step overflow, so that it has to be agreed on? The same on every rank
  bool _late;              ///< parameters are updated when the next forward pass wants them
  bool _under_way = false; ///< inside takeStep
  Vector _statistics;      ///< of the stage before this step; empty where no step is left out
  LossScale _scale;
  std::int64_t _batch, _log_every, _step = 0, _reported = 0;
  double _rate = 0.0;
  std::function<void()> _before_update;
  Clock::time_point _since = Clock::now();
};

/// What is left of the last update of each: before anyone but a forward pass reads what they update.
void finishUpdates(const ExecSpace& space, const std::vector<StageUpdater*>& updaters);

} // namespace partita
