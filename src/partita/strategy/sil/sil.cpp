#include "partita/strategy/sil/sil.hpp"

#include "partita/comm/agree.hpp"
#include "partita/data/order.hpp"
#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/sil/frozen_stream.hpp"
#include "partita/strategy/sil/synthetic_source.hpp"

#include <algorithm>

namespace partita {

namespace {

constexpr int relay_tag = 2;

/// Later stages of a relay learn from inputs that get better to the end: a rate that falls early would waste
/// them.
StageRate stageRate(const StrategySection& strategy, const StagePlan& plan) {
  if (plan.first()) return {};
  const bool relay = strategy.input == StageInput::relay;
  return {strategy.later_rate,
          strategy.later_hold == Switch::on || (strategy.later_hold == Switch::automatic && relay)};
}

} // namespace

SilTraining::SilTraining(const RunContext& context)
    : _context(context), _count(countSteps(context.config, context.sets.train.size())),
      _features(context.sets, context.sets.train), _evaluator(context, _count.steps, _count.per_epoch) {}

RunTimes SilTraining::run(const ExecSpace& space) {
  const bool frozen = _context.config.strategy.input == StageInput::frozen;
  if (frozen && _context.grid.plan().stages > 1) {
    // Better told now, by all ranks alike, than when the second stage begins.
    collectively(_context.grid.world(), [&] { ActivationCache(cacheFolder(), 1); });
  }
  _context.grid.world().barrier();
  const double start = secondsNow();
  if (frozen) {
    for (int stage = 0; stage < _context.grid.plan().stages; ++stage) trainFrozen(space, stage);
  } else {
    trainTogether(space);
  }
  _context.grid.world().barrier();
  _times.training = secondsNow() - start - _times.evaluation;
  return _times;
}

std::unique_ptr<StageTrainer> SilTraining::makeTrainer(LocalStage& local) {
  return std::make_unique<StageTrainer>(_context.config, local, _context.grid,
                                        stageRate(_context.config.strategy, local.stage.plan()), _count.steps,
                                        _count.per_epoch);
}

std::unique_ptr<BatchReader> SilTraining::makeReader(const RowSource* rows, std::int64_t count,
                                                     std::int64_t first_epoch) const {
  const Grid& grid = _context.grid;
  const auto& labels = _context.sets.train.labels;
  return std::make_unique<BatchReader>(
      rows, labels,
      trainingOrder(labels.size(), _context.seed(), _context.config.training.batch, grid.replica(),
                    grid.replicas(), first_epoch),
      count, localCapacity(_context.config, grid.replicas()), _context.config.data.prefetch);
}

std::unique_ptr<BatchSource> SilTraining::makeTogetherSource(std::size_t local) {
  const StagePlan& plan = _context.stages[local]->stage.plan();
  const StrategySection& strategy = _context.config.strategy;
  const Grid& grid = _context.grid;
  if (plan.first()) return std::make_unique<ReaderSource>(makeReader(&_features, _count.steps, 0));
  auto labels = makeReader(nullptr, _count.steps, 0);
  const std::int64_t capacity = localCapacity(_context.config, grid.replicas());
  if (strategy.input == StageInput::free) {
    const std::int64_t batch = _context.config.training.batch;
    return std::make_unique<SyntheticSource>(
        labelsOfCut(_context.config, _context.sets.classes, plan.inputs(), plan.index - 1), std::move(labels),
        mixesLabels(strategy), strategy.noise, _context.seed(), plan.index,
        SyntheticSource::Position{batch, replicaSlice(batch, grid.replica(), grid.replicas()).begin},
        capacity);
  }
  if (local > 0) return std::make_unique<HandedSource>(*_context.stages[local - 1], std::move(labels));
  return std::make_unique<ReceivedSource>(
      std::make_unique<Receiver>(grid.channel(grid.chain(), grid.group() - 1, relay_tag, "activations"),
                                 capacity, plan.inputs(), strategy.queue, _count.steps),
      std::move(labels));
}

void SilTraining::step(const ExecSpace& space, StageTrainer& trainer, BatchSource& source, Sender* onward) {
  alive();
  const StageBatch batch = source.next(space);
  trainer.forward(space, batch.in);
  if (_context.config.strategy.input == StageInput::relay) trainer.local().encode(space, {});
  // Before the update, so that it leaves while this stage learns.
  if (onward != nullptr) onward->send(space, trainer.local().joinedOutput());
  const bool reports = trainer.updater().reports();
  trainer.learn(space, batch.targets);
  if (!reports) return;
  const int index = trainer.local().index();
  const StepReport report = trainer.updater().report(
      space, index + 1, _context.partition.local_flops[static_cast<std::size_t>(index)]);
  if (_context.grid.replica() == 0) _context.observer.onStep(report);
}

void SilTraining::trainTogether(const ExecSpace& space) {
  const Grid& grid = _context.grid;
  const std::size_t count = _context.stages.size();
  std::vector<std::unique_ptr<StageTrainer>> trainers;
  std::vector<std::unique_ptr<BatchSource>> sources;
  for (std::size_t i = 0; i < count; ++i) {
    trainers.push_back(makeTrainer(*_context.stages[i]));
    sources.push_back(makeTogetherSource(i));
  }
  std::unique_ptr<Sender> sender;
  if (_context.config.strategy.input == StageInput::relay && grid.endStage() < grid.plan().stages) {
    sender = std::make_unique<Sender>(grid.channel(grid.chain(), grid.group() + 1, relay_tag, "activations"),
                                      localCapacity(_context.config, grid.replicas()),
                                      _context.stages.back()->stage.outputs(), _context.config.strategy.queue,
                                      _context.grid.traffic.between_stages);
  }
  for (std::int64_t t = 0; t < _count.steps; ++t) {
    for (std::size_t i = 0; i < count; ++i) {
      step(space, *trainers[i], *sources[i], i + 1 == count ? sender.get() : nullptr);
    }
    const double seconds = _evaluator.afterStep(space, t + 1, grid.plan().stages, grid.plan().stages);
    _times.evaluation += seconds;
    for (auto& trainer : trainers) trainer->updater().pause(seconds);
  }
}

std::string SilTraining::cacheFolder() const {
  const std::string& chosen = _context.config.strategy.cache_directory;
  return chosen.empty() ? _context.scratch_directory : chosen;
}

void SilTraining::trainFrozen(const ExecSpace& space, int stage) {
  Grid& grid = _context.grid;
  FrozenStream stream(_context, _count, stage);
  const std::unique_ptr<ActivationCache> own_inputs =
      std::move(_cache); // of stage - 1, while its outputs are made
  const RowSource* inputs =
      own_inputs != nullptr ? static_cast<const RowSource*>(own_inputs.get()) : &_features;
  if (!grid.owns(stage)) {
    if (stream.feedsFromHere()) stream.sendAll(space, *inputs);
    for (std::int64_t t = 0; t < _count.steps; ++t) {
      _times.evaluation += _evaluator.afterStep(space, t + 1, stage + 1, stage + 1);
    }
    return;
  }
  LocalStage& local = *_context.stages[static_cast<std::size_t>(stage - grid.firstStage())];
  const auto trainer = makeTrainer(local);
  std::unique_ptr<BatchSource> source;
  const std::int64_t streamed = stage == 0 ? 0 : std::min(_count.steps, _count.per_epoch);
  if (stage > 0) {
    _cache = std::make_unique<ActivationCache>(cacheFolder(), local.stage.inputs());
    source = stream.makeSource(*inputs, *_cache);
  }
  for (std::int64_t t = 0; t < _count.steps; ++t) {
    if (t == streamed) {
      source = std::make_unique<ReaderSource>(
          makeReader(stage > 0 ? static_cast<const RowSource*>(_cache.get()) : &_features,
                     _count.steps - streamed, streamed > 0 ? 1 : 0));
    }
    step(space, *trainer, *source, nullptr);
    // Rows that no batch of the first epoch had; before an evaluation, which the feeding rank joins only when
    // all have left it.
    if (t + 1 == streamed) stream.drain(space);
    const double seconds = _evaluator.afterStep(space, t + 1, stage + 1, stage + 1);
    _times.evaluation += seconds;
    trainer->updater().pause(seconds);
  }
}

} // namespace partita
