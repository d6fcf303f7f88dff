#pragma once

#include "partita/core/clock.hpp"
#include "partita/io/run_file.hpp"
#include "partita/optim/gradient_norm.hpp"
#include "partita/optim/optimiser.hpp"
#include "partita/optim/step_gate.hpp"
#include "partita/strategy/local_stage.hpp"
#include "partita/strategy/observer.hpp"
#include "partita/strategy/replica_link.hpp"

#include <functional>
#include <optional>

namespace partita {

/// How the learning rate of a stage differs from the deck's.
struct StageRate {
  StageRate(double rate_factor = 1.0, bool hold = false) : factor(rate_factor), held(hold) {}
  double factor;
  bool held; ///< a cosine schedule is replaced by `heldLearningRate`
};

/// Length and learning rate of a stage's training.
struct UpdateSchedule {
  std::int64_t steps = 0, steps_per_epoch = 0;
  StageRate rate = {};
  std::int64_t losses_per_step = 1; ///< microbatches of a batch
};

/// Steps from one report to the next in a run of `steps`. A report sums over the replicas: unless the deck
/// sets the interval, replicas that learn alone report only when they meet.
std::int64_t logInterval(const RunConfig& config, std::int64_t steps);

class StageUpdater;

/// The ranks that decide on a step together.
struct StepPartners {
  const Communicator& ranks; ///< either all take the step or all skip it
  /// Squared gradient norm of all stages that are clipped and reported together; empty: each stage has its
  /// own norm.
  std::function<double(const ExecSpace&)> squares = {};
};

/// One training step: saves what may have to be restored, calls `passes`, which computes the gradients of all
/// `updaters`, completes the gradients, and then updates the parameters, or skips the step if 16-bit numbers
/// overflowed on any rank of the partners. Throws RunError if a loss is not finite. Collective over the
/// partners if the step may overflow, unless each device decides for itself.
void takeStep(const ExecSpace& space, const std::vector<StageUpdater*>& updaters,
              const StepPartners& partners, const std::function<void()>& passes);

/// Changes the parameters of one stage step by step: completes its gradient, clips it, steps the optimiser,
/// scales the loss, and reports. The link combines the gradient with those of other ranks.
///
/// If the link overlaps and nothing needs the whole gradient at once (no clipping, no check for overflow, no
/// report, no offload), parameters are updated when the next forward pass needs them, while sums continue.
/// Any other reader of parameters or optimiser must call `finishUpdate` first, also after the last step.
/// Results do not depend on this, bit for bit.
///
/// If only a stage and its replicas decide on a step, a device knows by itself whether the step was skipped,
/// and the loss scale (`StepGate`); the host learns them when it reports or calls `finishUpdate`.
class StageUpdater {
 public:
  StageUpdater(const RunConfig& config, LocalStage& local, ReplicaLink link, const UpdateSchedule& schedule);
  ~StageUpdater();
  StageUpdater(const StageUpdater&) = delete;
  StageUpdater& operator=(const StageUpdater&) = delete;

  /// Completes the rest of the last update. Throws RunError if too many steps were skipped.
  void finishUpdate(const ExecSpace& space);

  // For the passes of a step, inside takeStep.

  /// Weight of a sample in the loss: the loss scale divided by the number of samples whose gradients are
  /// combined.
  DeviceFactor lossWeight() const {
    return scale() * static_cast<Real>(1.0 / static_cast<double>(_link.samples));
  }
  /// Call between the loss and the backward pass of a batch on `tape` with input `in`: throws RunError if the
  /// loss is not finite, unless such a step is skipped. On a device only reporting steps detect it, because
  /// no other step waits for the device.
  void checkLoss(const ExecSpace& space, const Tape& tape, const TypedMatrix& in) const;
  /// Callback for the last backward pass of the step: starts combining gradients with other ranks while the
  /// pass runs.
  Stage::GradientReady gradientReady(const ExecSpace& space);

  // Between steps.

  /// Throws RunError if a loss since the last report was not finite; waits for the device.
  void failIfDiverged(const ExecSpace& space, const Tape& tape, const TypedMatrix& in) const;
  /// Sets a function to be called each time before parameters and optimiser change, or might have changed.
  void beforeUpdate(std::function<void()> call) { _before_update = std::move(call); }
  /// Reports on the steps since the last report, over all replicas; waits for the device. Collective over the
  /// replicas. Throws RunError if the last gradient is not finite, unless such steps are skipped.
  StepReport report(const ExecSpace& space, std::int64_t stage_number, double flops_per_sample);
  /// Only the first parameters of the stage learn from now on; the others stay as they are.
  void learnOnly(std::int64_t parameters) { _optimiser->learnOnly(parameters); }
  /// Excludes time spent elsewhere (an evaluation) from the samples per second of the next report.
  void pause(double seconds) {
    _since += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  /// Squared norms of the last measured gradient, one per tensor; waits for the device.
  std::vector<double> tensorSquares(const ExecSpace& space) const { return _norm.squares(space); }

  LocalStage& local() { return _local; }
  const LocalStage& local() const { return _local; }
  const Optimiser& optimiser() const { return *_optimiser; }
  const LossScale& lossScale() const { return _known.scale; } ///< as far as the host knows it
  std::int64_t step() const { return _step; }
  /// Does the current step report, or between steps the next one?
  bool reports() const { return reportsAfter(_step + 1); }
  /// Between steps: does the last one report?
  bool reported() const { return reportsAfter(_step); }

  /// A vector of the strategy, of the stage's length. If a checkpoint lacks one that is not required, it
  /// starts from 0.
  struct Kept {
    Optimiser::State state;
    bool required;
  };
  /// Adds such a vector to the checkpointed state. Call before the first step.
  void keep(Optimiser::State state, bool required = true) { _kept.push_back({std::move(state), required}); }
  const std::vector<Kept>& kept() const { return _kept; }
  /// All that a checkpoint keeps besides the parameters: the optimiser's state and the vectors of `keep`.
  std::vector<Optimiser::State> states() const;
  UpdateState updateState() const;
  /// Continues after `step` steps; the caller has already restored the parameters and `states`.
  void resume(std::int64_t step, const UpdateState& state);

 private:
  friend void takeStep(const ExecSpace&, const std::vector<StageUpdater*>&, const StepPartners&,
                       const std::function<void()>&);
  void beginStep(const ExecSpace& space);
  void completeGradient(const ExecSpace& space);
  bool agrees(const Communicator& ranks) const;
  bool overflowed(const ExecSpace& space) const;
  void update(const ExecSpace& space, bool by_device);
  void updateIfFinite(const ExecSpace& space);
  void decideOnHost(const ExecSpace& space, bool overflow);
  void readGate(const ExecSpace& space);
  std::optional<double> squaresOfParts(const ExecSpace& space) const;
  void skipStep(const ExecSpace& space);

  bool reportsAfter(std::int64_t step) const { return step % _log_every == 0 || step == _schedule.steps; }
  bool clips() const { return _section.clip_norm > 0.0; }
  bool updatesLate() const { return _late && !reports(); }
  void updatePart(const ExecSpace& space, std::int64_t begin, std::int64_t end);
  DeviceFactor scale() const { return _gate ? _gate->scale() : DeviceFactor(); }
  double rateNow() const;

  LocalStage& _local;
  ReplicaLink _link;
  OptimiserSection _section;
  UpdateSchedule _schedule;
  std::unique_ptr<Optimiser> _optimiser;
  std::vector<Kept> _kept;
  GradientNorm _norm;
  bool _checks;            ///< may a step overflow, so that ranks must agree on it? The same on every rank
  bool _late;              ///< parameters are updated when the next forward pass needs them
  bool _under_way = false; ///< inside takeStep
  Vector _statistics;      ///< of the stage before this step; empty if steps are never skipped
  std::optional<StepGate> _gate; ///< if a step may overflow
  bool _gated = false;           ///< the device has decided on steps since the host last read its numbers
  StepNumbers _known;            ///< these numbers as the host last read or set them
  std::int64_t _batch, _log_every, _step = 0, _reported = 0;
  double _rate = 0.0;
  std::optional<double> _squares; ///< norm of the last measured gradient if other ranks have parts of it
  std::function<void()> _before_update;
  Clock::time_point _since = Clock::now();
};

/// Calls `finishUpdate` of each: required before anything but a forward pass reads what they update.
void finishUpdates(const ExecSpace& space, const std::vector<StageUpdater*>& updaters);

} // namespace partita
