#include "partita/strategy/sil/sil.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/wait_times.hpp"
#include "partita/plan/strategies/sil.hpp"
#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/pipeline/pipeline.hpp"
#include "partita/strategy/sil/exits.hpp"
#include "partita/strategy/sil/head_copies.hpp"
#include "partita/strategy/sil/joint_step.hpp"
#include "partita/strategy/sil/synthetic_source.hpp"

#include <algorithm>
#include <optional>

namespace partita {

namespace {

/// In a relay the inputs of later stages improve until the end of the run; a rate that falls early would
/// waste that.
StageRate stageRate(const StrategySection& strategy, const StagePlan& plan) {
  if (plan.first()) return {};
  const bool relay = strategy.sil.input == StageInput::relay;
  return {strategy.sil.later_rate,
          strategy.sil.later_hold == Switch::on || (strategy.sil.later_hold == Switch::automatic && relay)};
}

/// The folder for activations: the one that the deck names, or else `scratch`.
std::string cacheFolder(const SilSection& section, const std::string& scratch) {
  return section.cache_directory.empty() ? scratch : section.cache_directory;
}

/// While a stage reads its inputs from one file, its outputs are written to the other one.
constexpr std::size_t alternating_files = 2;

} // namespace

SilTraining::SilTraining(const RunContext& context)
    : _context(context), _features(context.sets, context.sets.train),
      _training_rows(context.sets, context.config.data, context.seed()),
      _evaluator(context, context.length.steps) {}

bool SilTraining::run(const ExecSpace& space) {
  if (!trainStages(space)) return false;
  _cache.reset();
  for (const auto& file : _context.activation_files) file->release();
  if (_context.length.recovery_steps > 0 && !PipelineTraining(_context, RunPhase::recovery).run(space))
    return false;
  if (_context.config.strategy.sil.exits == Exits::fitted && _context.grid.plan().stages > 1)
    fitExits(space, _context);
  return true;
}

bool SilTraining::trainStages(const ExecSpace& space) {
  if (_context.start.phase == RunPhase::recovery) return true;
  const bool frozen = _context.length.turns > 1;
  _context.grid.world().barrier();
  _context.clock.start();
  const bool done = frozen ? trainOneByOne(space) : trainTogether(space);
  _context.grid.world().barrier();
  _context.clock.stop();
  return done;
}

std::unique_ptr<StageTrainer> SilTraining::makeTrainer(LocalStage& local) {
  const UpdateSchedule schedule{_context.length.steps, _context.length.per_epoch,
                                stageRate(_context.config.strategy, local.stage.plan())};
  return std::make_unique<StageTrainer>(_context.config, local, _context.grid, schedule);
}

/// Was the state of a checkpoint found?
bool SilTraining::beginTraining(const ExecSpace& space, StageUpdater& updater, bool resumed) {
  _context.control.begin(updater);
  return resumed && _context.control.restore(space, updater);
}

std::unique_ptr<BatchReader> SilTraining::makeReader(const RowSource* rows, std::int64_t first) const {
  return std::make_unique<BatchReader>(
      rows, _context.sets.train, _context.trainingOrder(first), _context.length.steps - first,
      largestShare(_context.config.training.batch, _context.grid.replicas()), _context.config.data.prefetch);
}

BatchSource SilTraining::makeTogetherSource(std::size_t local) {
  const Stage& stage = _context.stages[local]->stage;
  const StagePlan& plan = stage.plan();
  const StrategySection& strategy = _context.config.strategy;
  const Grid& grid = _context.grid;
  if (plan.first()) return readerSource(makeReader(&_training_rows, _context.start.step));
  const std::int64_t first = _context.start.step;
  auto labels = makeReader(nullptr, first);
  const std::int64_t capacity = largestShare(_context.config.training.batch, grid.replicas());
  if (strategy.sil.input == StageInput::free) {
    const std::int64_t batch = _context.config.training.batch;
    return SyntheticSource(
        labelsOfCut(_context.config, _context.sets.classes, plan.inputs() / plan.positions, plan.index - 1,
                    layoutOf(plan.layers.front().in)),
        std::move(labels), mixesLabels(strategy.sil), strategy.sil.noise, _context.seed(), plan.index,
        SyntheticSource::Place{batch, shareOf(batch, grid.replica(), grid.replicas()).begin, first,
                               plan.positions},
        capacity);
  }
  if (local > 0) return handedSource(*_context.stages[local - 1], std::move(labels));
  const Channel from =
      grid.channel(grid.chain(), grid.group() - 1, Tag::relay, waits::activations, stage.inputPrecision());
  return receivedSource(std::make_shared<Receiver>(from, capacity, plan.inputs(), strategy.queue,
                                                   _context.length.steps - first),
                        std::move(labels));
}

void SilTraining::step(const ExecSpace& space, StageTrainer& trainer, const BatchSource& source,
                       Sender* onward) {
  alive();
  LocalStage& local = trainer.local();
  const bool relays = _context.config.strategy.sil.input == StageInput::relay;
  const StageBatch batch = source(space);
  trainer.step(space, batch.in, batch.targets, [&] {
    if (relays) local.encode(space, {}, local.tape);
    // Before the update, so that it travels while this stage learns.
    if (onward != nullptr) onward->send(space, local.tape.joinedOutput());
  });
  if (onward != nullptr) onward->progress();
}

void SilTraining::report(const ExecSpace& space, StageUpdater& updater, const Position& position) {
  const int index = updater.local().index();
  _context.report(space, updater, position, index + 1,
                  _context.partition.local[static_cast<std::size_t>(index)].flops);
}

bool SilTraining::afterStep(const ExecSpace& space, const Position& position, int trained,
                            const std::vector<StageUpdater*>& updaters) {
  _evaluator.afterStep(space, position, trained, trained, updaters);
  return _context.control.afterStep(space, position, updaters);
}

/// The activations that this rank sends to the next one; null if there are none.
std::unique_ptr<Sender> SilTraining::makeSender() {
  Grid& grid = _context.grid;
  const StrategySection& strategy = _context.config.strategy;
  if (strategy.sil.input != StageInput::relay || grid.endStage() == grid.plan().stages) return nullptr;
  const Stage& last = _context.stages.back()->stage;
  return std::make_unique<Sender>(
      grid.channel(grid.chain(), grid.group() + 1, Tag::relay, waits::activations, last.outputPrecision()),
      largestShare(_context.config.training.batch, grid.replicas()), last.outputs(), strategy.queue,
      grid.traffic.between_stages);
}

bool SilTraining::trainTogether(const ExecSpace& space) {
  const StrategySection& strategy = _context.config.strategy;
  const std::size_t count = _context.stages.size();
  std::vector<std::unique_ptr<StageTrainer>> trainers;
  std::vector<BatchSource> sources;
  std::vector<StageUpdater*> updaters;
  for (std::size_t i = 0; i < count; ++i) {
    trainers.push_back(makeTrainer(*_context.stages[i]));
    sources.push_back(makeTogetherSource(i));
    updaters.push_back(&trainers.back()->updater());
  }
  HeadCopies copies(_context, updaters);
  bool found = true;
  for (StageUpdater* updater : updaters) found = beginTraining(space, *updater, true) && found;
  copies.begin(space, found);
  const std::unique_ptr<Sender> sender = makeSender();
  std::optional<JointStep> joint;
  if (strategy.sil.joint_every > 0) joint.emplace(_context, updaters, _context.start.step);
  bool done = true;
  Position at = _context.start;
  while (done && at.step < _context.length.steps) {
    ++at.step;
    if (joint && JointStep::due(strategy, at.step)) {
      joint->run(space, sources, sender.get());
    } else {
      for (std::size_t i = 0; i < count; ++i)
        step(space, *trainers[i], sources[i], i + 1 == count ? sender.get() : nullptr);
    }
    for (StageUpdater* updater : updaters) report(space, *updater, at);
    copies.afterStep(space, at.step);
    done = !afterStep(space, at, _context.grid.plan().stages, updaters);
  }
  if (sender != nullptr) sender->finish();
  if (joint) joint->finish();
  copies.finish(space, at.step);
  finishUpdates(space, updaters);
  return done;
}

/// For the inputs of a stage on this rank.
std::unique_ptr<ActivationCache> SilTraining::makeCache(int stage) const {
  const auto local = static_cast<std::size_t>(stage - _context.grid.firstStage());
  const Stage& of = _context.stages[local]->stage;
  return std::make_unique<ActivationCache>(_context.activation_files.at(local % alternating_files),
                                           of.inputPrecision(), of.inputs());
}

bool SilTraining::trainOneByOne(const ExecSpace& space) {
  const Position& start = _context.start;
  for (int stage = 1; stage < start.stage; ++stage) remakeInputs(space, stage, _context.length.steps);
  for (int stage = start.stage; stage < _context.grid.plan().stages; ++stage) {
    if (!trainFrozen(space, stage, stage == start.stage ? start.step : 0)) return false;
  }
  return true;
}

/// Recomputes only the inputs that a later stage learns from. They are the same as before, because the stages
/// that compute them no longer change. Counts what is sent for the first time, after `steps` of the stage.
void SilTraining::remakeInputs(const ExecSpace& space, int stage, std::int64_t steps) {
  Grid& grid = _context.grid;
  const RunLength& length = _context.length;
  const Traffic counted = grid.traffic;
  FrozenStream stream(_context, stage);
  const std::unique_ptr<ActivationCache> own_inputs = std::move(_cache);
  const RowSource& inputs = own_inputs != nullptr ? static_cast<const RowSource&>(*own_inputs) : _features;
  if (grid.owns(stage)) {
    _cache = makeCache(stage);
    stream.makeSource(inputs, *_cache);
    stream.drain(space);
  } else if (stream.feedsFromHere()) {
    const bool sent = steps >= std::min(length.steps, length.per_epoch);
    stream.beginFeeding(inputs);
    for (std::int64_t step = 0; !sent && step < steps; ++step) stream.feedBatch(space);
    if (!sent) grid.traffic = counted;
    stream.feedRest(space);
    if (sent) grid.traffic = counted;
  }
}

/// For ranks that do not own the stage under training; one of them feeds it.
bool SilTraining::waitForOthers(const ExecSpace& space, FrozenStream& stream, int stage, std::int64_t first) {
  const RunLength& length = _context.length;
  for (Position at{RunPhase::training, stage, first}; at.step < length.steps;) {
    ++at.step;
    if (at.step <= length.per_epoch) stream.feedBatch(space);
    if (at.step == std::min(length.steps, length.per_epoch)) stream.feedRest(space);
    if (!afterStep(space, at, stage + 1, {})) continue;
    stream.finish();
    return false;
  }
  return true;
}

bool SilTraining::trainFrozen(const ExecSpace& space, int stage, std::int64_t first) {
  const Grid& grid = _context.grid;
  const RunLength& length = _context.length;
  // For an interrupted stage, all inputs are recomputed; a new one gets them as they arrive.
  if (first > 0 && stage > 0) remakeInputs(space, stage, first);
  const std::unique_ptr<ActivationCache> own_inputs =
      first > 0 ? nullptr : std::move(_cache); // of stage - 1, while its outputs are computed
  const RowSource& inputs = own_inputs != nullptr ? static_cast<const RowSource&>(*own_inputs) : _features;
  FrozenStream stream(_context, stage);
  if (!grid.owns(stage)) {
    if (first == 0 && stream.feedsFromHere()) stream.beginFeeding(inputs);
    return waitForOthers(space, stream, stage, first);
  }
  LocalStage& local = *_context.stages[static_cast<std::size_t>(stage - grid.firstStage())];
  const auto trainer = makeTrainer(local);
  beginTraining(space, trainer->updater(), stage == _context.start.stage);
  BatchSource source;
  const std::int64_t streamed = stage == 0 || first > 0 ? first : std::min(length.steps, length.per_epoch);
  if (stage > 0 && first == 0) {
    _cache = makeCache(stage);
    source = stream.makeSource(inputs, *_cache);
  }
  const RowSource* spilled = stage > 0 ? static_cast<const RowSource*>(_cache.get()) : &_training_rows;
  bool done = true;
  for (Position at{RunPhase::training, stage, first}; done && at.step < length.steps;) {
    if (at.step == streamed) {
      source = nullptr; // before the buffers of the next are allocated
      source = readerSource(makeReader(spilled, streamed));
    }
    ++at.step;
    step(space, *trainer, source, nullptr);
    report(space, trainer->updater(), at);
    // Takes the rows that no batch of the first epoch contained. This precedes the evaluation, which the
    // feeding rank joins only after it has sent them all.
    if (at.step == streamed) stream.drain(space);
    done = !afterStep(space, at, stage + 1, {&trainer->updater()});
  }
  finishUpdates(space, {&trainer->updater()});
  return done;
}

namespace {

class SilRules final : public StrategyRules {
 public:
  std::unique_ptr<Strategy> make(const RunContext& context) const override {
    return std::make_unique<SilTraining>(context);
  }

  /// Of stages that are trained one by one.
  std::vector<std::pair<std::string, std::string>> folders(const RunConfig& config, const RunLength& length,
                                                           const std::string& scratch) const override {
    if (length.turns == 1) return {};
    return {{"strategy/cache_directory", cacheFolder(config.strategy.sil, scratch)}};
  }
  void checkFiles(const RunConfig& config, const RunLength& length, std::int64_t,
                  const std::string& scratch) const override {
    if (length.turns > 1) ActivationFile(cacheFolder(config.strategy.sil, scratch), 0);
  }
  /// Room for the inputs of each stage but the first of the network; a file is used by every second stage.
  ActivationFiles takeFiles(const RunConfig& config, const RunLength& length, std::int64_t samples,
                            const std::string& scratch,
                            const std::vector<std::unique_ptr<LocalStage>>& stages) const override {
    std::vector<std::int64_t> bytes(length.turns > 1 ? std::min(stages.size(), alternating_files) : 0);
    for (std::size_t i = 0; i < stages.size() && !bytes.empty(); ++i) {
      const Stage& stage = stages[i]->stage;
      const std::int64_t row = stage.inputs() * bytesOf(stage.inputPrecision());
      if (!stage.plan().first())
        bytes[i % alternating_files] = std::max(bytes[i % alternating_files], samples * row);
    }
    ActivationFiles files;
    for (const std::int64_t most : bytes)
      files.push_back(std::make_shared<ActivationFile>(cacheFolder(config.strategy.sil, scratch), most));
    return files;
  }
};

} // namespace

const StrategyRules& silRules() {
  static const SilRules rules;
  return rules;
}

} // namespace partita
