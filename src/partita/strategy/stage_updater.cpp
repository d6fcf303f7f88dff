#include "partita/strategy/stage_updater.hpp"

#include "partita/plan/stage_memory.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/divergence.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace partita {

namespace {

std::vector<GradientNorm::Part> partsOf(const Stage& stage) {
  std::vector<GradientNorm::Part> parts;
  for (const StageTensor& tensor : stage.tensors()) parts.push_back({tensor.offset, tensor.size});
  return parts;
}

} // namespace

std::int64_t logInterval(const RunConfig& config, std::int64_t steps) {
  constexpr std::int64_t rows = 200, longest = 1000;
  if (config.run.log_every > 0) return config.run.log_every;
  const std::int64_t interval = std::clamp<std::int64_t>(steps / rows, 1, longest);
  const std::int64_t meeting = planOf(config.strategy).meetings(config.strategy).every;
  const std::int64_t beyond = meeting > 0 ? interval % meeting : 0;
  return beyond > 0 ? interval + (meeting - beyond) : interval; // a multiple of `meeting`, which may be huge
}

StageUpdater::StageUpdater(const RunConfig& config, LocalStage& local, ReplicaLink link,
                           const UpdateSchedule& schedule)
    : _local(local), _link(std::move(link)), _section(config.optimiser), _schedule(schedule),
      _optimiser(makeOptimiser(config.optimiser, local.stage.masters().size())), _norm(partsOf(local.stage)),
      _checks(leavesStepsOut(config)),
      _late(_link.gradients->overlaps() && !clips() && !_checks && _section.offload == Offload::none),
      _statistics("partita::StageUpdater::statistics", _checks ? local.stage.statistics().extent(0) : 0),
      _batch(config.training.batch), _log_every(logInterval(config, schedule.steps)) {
  PARTITA_REQUIRE(_checks || !usesFp16(config), "a scaled loss whose overflows nobody checks");
  _known.scale = LossScale(usesFp16(config));
  if (_checks) {
    _gate.emplace(_section, _known);
    _link.gradients->setScale(_gate->scale(), _gate->inverseScale());
  }
  if (!_late) return;
  _local.stage.setParametersWanted([this](const ExecSpace& space, std::int64_t begin, std::int64_t end) {
    updatePart(space, begin, end);
  });
}

StageUpdater::~StageUpdater() {
  if (_late) _local.stage.setParametersWanted({});
}

/// Does nothing if no part of [begin, end) is left to be summed.
void StageUpdater::updatePart(const ExecSpace& space, std::int64_t begin, std::int64_t end) {
  _link.gradients->arrive(space, begin, end, [this, &space](std::int64_t first, std::int64_t last) {
    _optimiser->stepPart(space, _local.stage.trained(), _rate, first, last);
  });
}

void StageUpdater::finishUpdate(const ExecSpace& space) {
  if (_late) updatePart(space, 0, _local.stage.masters().size());
  if (_gated) readGate(space);
}

std::vector<Optimiser::State> StageUpdater::states() const {
  std::vector<Optimiser::State> all = _optimiser->state();
  for (const Kept& kept : _kept) all.push_back(kept.state);
  return all;
}

UpdateState StageUpdater::updateState() const {
  const LossScale& scale = _known.scale;
  return {static_cast<double>(_optimiser->steps()), scale.value, static_cast<double>(scale.clean)};
}

void StageUpdater::resume(std::int64_t step, const UpdateState& state) {
  _step = _reported = step;
  _optimiser->resume(static_cast<std::int64_t>(state.steps));
  _known.taken = _optimiser->steps();
  _known.scale.resume(state.loss_scale, static_cast<std::int64_t>(state.clean_steps));
  if (_gate) _gate->set(ExecSpace(), _known);
}

/// Saves statistics and scores, which forward passes change and a skipped step restores.
void StageUpdater::beginStep(const ExecSpace& space) {
  PARTITA_REQUIRE(!_under_way, "a step begins before the previous one has ended");
  _under_way = true;
  if (_checks) _local.score.keep(space);
  if (_statistics.extent(0) > 0) Kokkos::deep_copy(space, _statistics, _local.stage.statistics());
}

Stage::GradientReady StageUpdater::gradientReady(const ExecSpace& space) {
  PARTITA_REQUIRE(_under_way, "a gradient outside a step");
  _link.gradients->wantFromFront(updatesLate());
  return [this, space](std::int64_t begin, std::int64_t end) { _link.gradients->ready(space, begin, end); };
}

/// Completes and measures the gradient if it is clipped, checked or reported. Otherwise `update` completes it
/// part by part, while other parts are still being summed.
void StageUpdater::completeGradient(const ExecSpace& space) {
  if (!clips() && !reports() && !_checks) return;
  _link.gradients->finish(space);
  _norm.measure(space, _local.stage.trained().gradients, _gate ? _gate->inverseScale() : DeviceFactor());
}

void StageUpdater::checkLoss(const ExecSpace& space, const Tape& tape, const TypedMatrix& in) const {
  constexpr bool seen_at_once = std::is_same<MemSpace, HostSpace>::value;
  if (_checks) return; // `overflowed` detects it
  if (seen_at_once || reports()) failIfDiverged(space, tape, in);
}

void StageUpdater::failIfDiverged(const ExecSpace& space, const Tape& tape, const TypedMatrix& in) const {
  if (_local.score.bad(space)) failDiverged(space, _local, tape, in, _reported, _schedule.losses_per_step);
}

double StageUpdater::rateNow() const {
  const bool held = _schedule.rate.held && _section.schedule == ScheduleKind::cosine;
  return _schedule.rate.factor *
         (held ? heldLearningRate(_section, _step, _schedule.steps)
               : learningRate(_section, _step, _schedule.steps, _schedule.steps_per_epoch));
}

/// Of the stage's gradient, if parts of it are on other ranks.
std::optional<double> StageUpdater::squaresOfParts(const ExecSpace& space) const {
  if (_local.parts == nullptr) return {};
  const std::vector<StageTensor>& tensors = _local.stage.tensors();
  const std::vector<double> measured = tensorSquares(space);
  std::vector<double> sum{0.0};
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].owned) sum.front() += measured[i];
  _local.parts->ranks().sum(sum);
  return sum.front();
}

/// Do all these ranks see the same gradient? Then their devices decide alike, and no host has to ask.
bool StageUpdater::agrees(const Communicator& ranks) const {
  return ranks.size() == 1 ||
         (_link.decide_alike && _local.parts == nullptr && ranks.size() == _link.peers.size());
}

bool StageUpdater::overflowed(const ExecSpace& space) const {
  if (!_checks) return false;
  if (_local.stage.masters().size() == 0) return _local.score.bad(space);
  return !std::isfinite(_norm.squaredNorm(space)); // as it is if a loss is not finite
}

/// With `by_device`, the device decides whether it takes place.
void StageUpdater::update(const ExecSpace& space, bool by_device) {
  const bool scaled = _known.scale.scales;
  _rate = rateNow();
  if (_before_update) _before_update();
  if (clips() || scaled)
    _norm.clip(space, clips() ? _section.clip_norm : std::numeric_limits<double>::infinity(), _squares);
  if (by_device) _gate->decide(space, _norm, _rate); // after `clip`, whose factor needs the old scale
  const ParameterBuffers trained = _local.stage.trained();
  if (updatesLate()) {
    _optimiser->begin(trained);
  } else {
    _optimiser->step(
        space, trained, _rate, clips() || scaled ? _norm.factor() : Vector(),
        [&](std::int64_t begin) { _link.gradients->arrive(space, begin, trained.gradients.size); },
        by_device ? _gate->numbers() : nullptr);
  }
  // Replicas have seen different samples; with equal statistics any of them can be saved or evaluated.
  if (_local.replicas != nullptr) _local.replicas->average(space, _local.stage.statistics());
  ++_step;
}

namespace {

constexpr std::int64_t patience = 100; // steps that may be skipped one after another

[[noreturn]] void failImpatient(const LocalStage& local) {
  BeforeDivergence::happen();
  throw RunError(
      "stage " + std::to_string(local.index() + 1) + ": the loss or the gradient was not finite in " +
      std::to_string(patience) +
      " steps in a row, which were all skipped (try a smaller optimiser/learning_rate, or 'bf16' for "
      "run/precision and strategy/wire, which has the range of float)");
}

} // namespace

/// Skips the update of this batch: restores statistics, and scores if the loss was not finite.
void StageUpdater::skipStep(const ExecSpace& space) {
  if (_before_update) _before_update();
  if (_statistics.extent(0) > 0) Kokkos::deep_copy(space, _local.stage.statistics(), _statistics);
  if (_local.score.bad(space)) _local.score.restore(space); // otherwise the loss is valid and reported
  _rate = rateNow();
  ++_step;
}

/// `update` or `skipStep`, as the device decides; nothing waits for it.
void StageUpdater::updateIfFinite(const ExecSpace& space) {
  _gated = true;
  update(space, true);
  if (_statistics.extent(0) > 0)
    restoreIfLeftOut(space, _gate->numbers(), _local.stage.statistics(), _statistics);
  _local.score.restoreIfBad(space);
}

/// Steps that devices decide on and others may alternate.
void StageUpdater::decideOnHost(const ExecSpace& space, bool overflow) {
  if (_gated) readGate(space);
  overflow ? skipStep(space) : update(space, false);
  if (!_gate) return;
  _known.scale.count(!overflow);
  _known.taken = _optimiser->steps();
  _gate->set(space, _known);
  if (_known.scale.overflows >= patience) failImpatient(_local);
}

void StageUpdater::readGate(const ExecSpace& space) {
  _gated = false;
  _known = _gate->read(space);
  _optimiser->resume(_known.taken);
  if (_known.longest_run >= patience) failImpatient(_local);
}

void takeStep(const ExecSpace& space, const std::vector<StageUpdater*>& updaters,
              const StepPartners& partners, const std::function<void()>& passes) {
  const StageUpdater& last = *updaters.back(); // all updaters clip, check and report alike
  const bool reports = last.reports();
  for (StageUpdater* updater : updaters) updater->beginStep(space);
  passes();
  for (StageUpdater* updater : updaters) updater->completeGradient(space);
  std::optional<double> squares;
  const bool measures = last.clips() || reports;
  if (partners.squares && measures) squares = partners.squares(space);
  for (StageUpdater* updater : updaters)
    updater->_squares = squares || !measures ? squares : updater->squaresOfParts(space);
  const bool gated =
      row_teams && last._checks && updaters.size() == 1 && !partners.squares && last.agrees(partners.ranks);
  bool overflow = false;
  if (last._checks && !gated) {
    std::int64_t found = 0;
    for (const StageUpdater* updater : updaters) found += updater->overflowed(space) ? 1 : 0;
    overflow = partners.ranks.maximum(found) > 0;
  }
  for (StageUpdater* updater : updaters) {
    if (gated)
      updater->updateIfFinite(space);
    else
      updater->decideOnHost(space, overflow);
    updater->_under_way = false;
  }
}

void finishUpdates(const ExecSpace& space, const std::vector<StageUpdater*>& updaters) {
  for (StageUpdater* updater : updaters) updater->finishUpdate(space);
}

namespace {

[[noreturn]] void failInfiniteGradient(const LocalStage& local, std::int64_t step) {
  BeforeDivergence::happen();
  throw RunError("stage " + std::to_string(local.index() + 1) + ": the gradient is not finite at step " +
                 std::to_string(step) +
                 " (try a smaller optimiser/learning_rate, standardised data, or optimiser/clip_norm)");
}

} // namespace

StepReport StageUpdater::report(const ExecSpace& space, std::int64_t stage_number, double flops_per_sample) {
  if (_gated) readGate(space);
  const Score::Sums own = _local.score.take(space);
  std::vector<double> all{own.loss, own.correct, own.rows};
  if (_link.peers.size() > 1)
    _link.peers.sum(all); // the history covers whole batches, not one replica's share
  const Score::Sums sums{all[0], all[1], all[2]};
  const auto now = Clock::now();
  StepReport report;
  report.stage = stage_number;
  report.epoch = (_step - 1) / _schedule.steps_per_epoch + 1;
  report.step = _step;
  report.loss = sums.meanLoss();
  report.accuracy = _local.loss->decodesInTraining() ? sums.accuracy() : -1.0;
  report.learning_rate = _rate;
  report.samples_per_second = static_cast<double>((_step - _reported) * _batch) / secondsBetween(_since, now);
  report.flops_per_second = report.samples_per_second * flops_per_sample;
  report.gradient_norm = std::sqrt(_squares ? *_squares : _norm.squaredNorm(space));
  // A loss can stay finite: the ReLU of a library may turn NaN into 0.
  if (!_checks && !std::isfinite(report.gradient_norm)) failInfiniteGradient(_local, _step);
  _reported = _step;
  _since = now;
  return report;
}

} // namespace partita
