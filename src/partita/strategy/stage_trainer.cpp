#include "partita/strategy/stage_trainer.hpp"

#include "partita/core/clock.hpp"
#include "partita/optim/schedule.hpp"
#include "partita/plan/stage_memory.hpp"
#include "partita/strategy/divergence.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace partita {

namespace {

std::vector<std::int64_t> tensorBounds(const Stage& stage) {
  std::vector<std::int64_t> bounds{0};
  for (const StageTensor& tensor : stage.tensors()) bounds.push_back(tensor.offset + tensor.size);
  return bounds;
}

/// Steps from one report to the next in a run of `steps`.
std::int64_t logInterval(const RunSection& run, std::int64_t steps) {
  constexpr std::int64_t rows = 200, longest = 1000;
  return run.log_every > 0 ? run.log_every : std::clamp<std::int64_t>(steps / rows, 1, longest);
}

/// Their range is so small that the loss has to be scaled.
bool hasFp16(const RunConfig& config) {
  return config.run.precision == Precision::fp16 || config.strategy.wire == Precision::fp16;
}

} // namespace

StageUpdater::StageUpdater(const RunConfig& config, LocalStage& local, Grid& grid, StageRate stage_rate,
                           std::int64_t steps, std::int64_t steps_per_epoch)
    : _local(local), _peers(grid.peers()), _section(config.optimiser),
      _optimiser(makeOptimiser(config.optimiser, local.stage.masters().size())),
      _reducer(grid.peers(), local.stage.trained().gradients,
               config.strategy.bucket_kib * 1024 / bytesOf(grid.paths().wire), grid.paths().reductions,
               grid.traffic.between_replicas, grid.paths().wire),
      _norm(tensorBounds(local.stage)), _checks(leavesStepsOut(config)),
      _statistics("partita::StageUpdater::statistics", _checks ? local.stage.statistics().extent(0) : 0),
      _scale(hasFp16(config)), _batch(config.training.batch), _log_every(logInterval(config.run, steps)),
      _steps(steps), _steps_per_epoch(steps_per_epoch), _stage_rate(stage_rate) {
  _reducer.setScale(_scale.value());
}

StageUpdater::~StageUpdater() {
  if (_late) _local.stage.setParametersWanted({});
}

void StageUpdater::updateLate() {
  _late = _peers.size() > 1 && !clips() && !_checks && _section.offload == Offload::none;
  if (!_late) return;
  _local.stage.setParametersWanted([this](const ExecSpace& space, std::int64_t begin, std::int64_t end) {
    updatePart(space, begin, end);
  });
}

/// Where nothing of [begin, end) is left to be summed, nothing happens.
void StageUpdater::updatePart(const ExecSpace& space, std::int64_t begin, std::int64_t end) {
  _reducer.arrive(space, begin, end, [this, &space](std::int64_t first, std::int64_t last) {
    _optimiser->stepPart(space, _local.stage.trained(), _rate, first, last);
  });
}

void StageUpdater::finishUpdate(const ExecSpace& space) {
  if (_late) updatePart(space, 0, _local.stage.masters().size());
}

void StageUpdater::resumeScale(double value, std::int64_t clean_steps) {
  _scale.resume(value, clean_steps);
  _reducer.setScale(_scale.value());
}

void StageUpdater::beginStep(const ExecSpace& space) {
  if (_checks) _local.score.keep(space);
  if (_statistics.extent(0) > 0) Kokkos::deep_copy(space, _statistics, _local.stage.statistics());
}

Stage::GradientReady StageUpdater::gradientReady(const ExecSpace& space) {
  _reducer.holdBack(updatesLate());
  return [this, space](std::int64_t begin, std::int64_t end) { _reducer.ready(space, begin, end); };
}

void StageUpdater::completeGradient(const ExecSpace& space) {
  if (!clips() && !reports() && !_checks) return;
  _reducer.finish(space);
  _norm.measure(space, _local.stage.trained().gradients, _scale.value());
}

void StageUpdater::checkLoss(const ExecSpace& space, const Tape& tape, const Matrix& in) const {
  constexpr bool seen_at_once = std::is_same<MemSpace, HostSpace>::value;
  if (_checks) return; // `overflowed` sees it
  if (seen_at_once || reports()) failIfDiverged(space, tape, in);
}

void StageUpdater::failIfDiverged(const ExecSpace& space, const Tape& tape, const Matrix& in) const {
  if (_local.score.bad(space)) failDiverged(space, _local, tape, in, _reported, _losses_a_step);
}

void StageUpdater::resume(std::int64_t step, std::int64_t optimiser_steps) {
  _step = _reported = step;
  _optimiser->resume(optimiser_steps);
}

double StageUpdater::rateNow() const {
  const bool held = _stage_rate.held && _section.schedule == ScheduleKind::cosine;
  return _stage_rate.factor * (held ? heldLearningRate(_section, _step, _steps)
                                    : learningRate(_section, _step, _steps, _steps_per_epoch));
}

bool StageUpdater::overflowed(const ExecSpace& space) const {
  return _checks && (!std::isfinite(_norm.squaredNorm(space)) || _local.score.bad(space));
}

void StageUpdater::update(const ExecSpace& space, std::optional<double> squares) {
  const bool scaled = _scale.value() != 1.0;
  _rate = rateNow();
  if (_before_update) _before_update();
  if (clips() || scaled)
    _norm.clip(space, clips() ? _section.clip_norm : std::numeric_limits<double>::infinity(), squares);
  const Trained trained = _local.stage.trained();
  if (updatesLate()) {
    _optimiser->begin(trained);
  } else {
    _optimiser->step(space, trained, _rate, clips() || scaled ? _norm.factor() : Vector(),
                     [&](std::int64_t begin) { _reducer.arrive(space, begin, trained.gradients.size); });
  }
  // Replicas have seen other samples; with equal statistics any of them can be kept, or evaluate.
  if (_local.replicas != nullptr) _local.replicas->average(space, _local.stage.statistics());
  _scale.stepTaken();
  _reducer.setScale(_scale.value());
  ++_step;
}

void StageUpdater::leaveOut(const ExecSpace& space) {
  constexpr std::int64_t patience = 100;
  if (_statistics.extent(0) > 0) Kokkos::deep_copy(space, _local.stage.statistics(), _statistics);
  if (_local.score.bad(space)) _local.score.restore(space); // else the loss is worth telling
  _rate = rateNow();
  _scale.stepLeftOut();
  _reducer.setScale(_scale.value());
  ++_step;
  if (_scale.overflows() == patience)
    throw RunError("stage " + std::to_string(_local.index() + 1) +
                   ": no loss or no gradient was finite in the last " + std::to_string(patience) +
                   " steps, none of which was taken (try a smaller optimiser/learning_rate, or run/precision "
                   "and strategy/wire 'bf16', which reaches as far as float)");
}

bool overflowAnywhere(const ExecSpace& space, const std::vector<const StageUpdater*>& updaters,
                      const Communicator& comm) {
  if (!updaters.front()->checksOverflow()) return false;
  std::int64_t found = 0;
  for (const StageUpdater* updater : updaters) found += updater->overflowed(space) ? 1 : 0;
  return comm.maximum(found) > 0;
}

void finishUpdates(const ExecSpace& space, const std::vector<StageUpdater*>& updaters) {
  for (StageUpdater* updater : updaters) updater->finishUpdate(space);
}

StepReport StageUpdater::report(const ExecSpace& space, std::int64_t stage_number, double flops_per_sample) {
  const Score::Sums own = _local.score.take(space);
  std::vector<double> all{own.loss, own.correct, own.rows};
  if (_peers.size() > 1) _peers.sum(all); // the history is of the batches, not of a replica's share
  const Score::Sums sums{all[0], all[1], all[2]};
  const auto now = Clock::now();
  StepReport report;
  report.stage = stage_number;
  report.epoch = (_step - 1) / _steps_per_epoch + 1;
  report.step = _step;
  report.loss = sums.meanLoss();
  report.accuracy = _local.loss->decodesInTraining() ? sums.accuracy() : -1.0;
  report.learning_rate = _rate;
  report.samples_per_second = static_cast<double>((_step - _reported) * _batch) / secondsBetween(_since, now);
  report.flops_per_second = report.samples_per_second * flops_per_sample;
  report.gradient_norm = std::sqrt(_norm.squaredNorm(space));
  _reported = _step;
  _since = now;
  return report;
}

StageTrainer::StageTrainer(const RunConfig& config, LocalStage& local, Grid& grid, StageRate stage_rate,
                           std::int64_t steps, std::int64_t steps_per_epoch)
    : _local(local), _peers(grid.peers()), _updater(config, local, grid, stage_rate, steps, steps_per_epoch),
      _config(config), _grid(grid) {}

Pass StageTrainer::passOfStep() const {
  return trainingPass(_config, _grid, _updater.step());
}

void StageTrainer::forward(const ExecSpace& space, const Matrix& in) {
  _in = in;
  _updater.beginStep(space);
  _local.stage.forward(space, passOfStep(), in, _local.tape);
}

void StageTrainer::learn(const ExecSpace& space, const Targets& targets) {
  const Matrix grad = _local.stage.outputGradient(_local.tape.rows);
  _local.loss->evaluate(space, _local.tape.output(), targets, _updater.lossWeight(), grad, _local.score);
  _updater.checkLoss(space, _local.tape, _in);
  _local.stage.backward(space, passOfStep(), _in, _local.tape, grad, Matrix(), _updater.gradientReady(space));
  _updater.completeGradient(space);
  // A stage that learns by itself agrees with its replicas alone: others may be many steps ahead.
  if (overflowAnywhere(space, {&_updater}, _peers)) {
    _updater.leaveOut(space);
  } else {
    _updater.update(space);
  }
}

} // namespace partita
