#include "partita/strategy/pipeline/pipeline.hpp"

#include "partita/data/augmentation.hpp"
#include "partita/data/order.hpp"
#include "partita/plan/run_length.hpp"

namespace partita {

PipelineTraining::PipelineTraining(const RunContext& context, RunPhase phase,
                                   std::unique_ptr<Replicas> replicas)
    : _context(context), _phase(phase), _replicas(std::move(replicas)),
      _steps(phase == RunPhase::recovery ? context.length.recovery_steps : context.length.steps),
      _first(context.start.phase == phase ? context.start.step : 0),
      _number(phase == RunPhase::training && context.partition.stages.size() == 1 ? 1 : 0),
      _evaluator(context, _steps) {
  Grid& grid = context.grid;
  if (_replicas == nullptr) _replicas = std::make_unique<SummedReplicas>(context.config, grid);
  const StrategySection& strategy = context.config.strategy;
  const IndexRange share = shareOf(context.config.training.batch, grid.replica(), grid.replicas());
  const std::int64_t rows = share.size();
  _microbatches = microbatchesOf(strategy, rows);
  const UpdateSchedule schedule{_steps, context.length.per_epoch,
                                phase == RunPhase::recovery ? strategy.sil.recovery_rate : 1.0,
                                _microbatches};
  for (const auto& local : context.stages) {
    _owned.push_back(
        std::make_unique<StageUpdater>(context.config, *local, _replicas->link(*local), schedule));
    _updaters.push_back(_owned.back().get());
    _updaters.back()->learnOnly(local->stage.ownParameters()); // weight decay would wear heads away
    _replicas->attach(*_updaters.back());
  }
  placeTensors();
  _work =
      std::make_unique<NetworkWork>(context, _updaters, _microbatches,
                                    liveWindow(strategy, grid.group(), grid.plan().groups, _microbatches));
  const Stage &front = context.stages.front()->stage, &back = context.stages.back()->stage;
  const PipelineEngine::Sizes sizes{microbatchRows(strategy, rows), front.inputs(), back.outputs(),
                                    front.inputPrecision(), back.outputPrecision()};
  _engine = std::make_unique<PipelineEngine>(grid, strategy, _microbatches, sizes, _steps - _first, *_work);
}

/// Reads microbatches: a replica's whole share of a batch might not fit into memory.
BatchReader PipelineTraining::makeReader(const RowSource& features) const {
  const Grid& grid = _context.grid;
  const RunConfig& config = _context.config;
  const RunLength& length = _context.length;
  const std::int64_t epochs = (length.steps + length.per_epoch - 1) / length.per_epoch; // begun in training
  const std::int64_t before = _phase == RunPhase::recovery ? epochs * length.per_epoch : 0;
  return {grid.group() == 0 ? &features : nullptr,
          _context.sets.train,
          inParts(_context.trainingOrder(before + _first), _microbatches),
          (_steps - _first) * _microbatches,
          microbatchRows(config.strategy, largestShare(config.training.batch, grid.replicas())),
          config.data.prefetch,
          _engine->rule().window()};
}

bool PipelineTraining::run(const ExecSpace& space) {
  const Grid& grid = _context.grid;
  const TrainingRows features(_context.sets, _context.config.data, _context.seed());
  BatchReader reader = makeReader(features);
  for (StageUpdater* updater : _updaters) {
    _context.control.begin(*updater);
    const bool found = _context.start.phase == _phase && _context.control.restore(space, *updater);
    _replicas->begin(space, *updater, found);
  }
  grid.world().barrier();
  _context.clock.start();
  bool done = true;
  for (Position at{_phase, 0, _first}; done && at.step < _steps;) {
    ++at.step;
    const bool traced = _context.trace != nullptr && at.step <= _first + _context.config.run.trace;
    _engine->setTrace(traced ? _context.trace : nullptr);
    step(space, reader, at);
    _replicas->afterStep(space, at.step, at.step == _steps);
    _evaluator.afterStep(space, at, grid.plan().stages, _number, _updaters);
    done = !_context.control.afterStep(space, at, _updaters);
  }
  if (_first == _steps) _replicas->withoutSteps(space);
  _engine->finish();
  finishUpdates(space, _updaters);
  grid.world().barrier();
  _context.clock.stop();
  return done;
}

void PipelineTraining::step(const ExecSpace& space, BatchReader& reader, const Position& position) {
  alive();
  const bool alone = _context.partition.stages.size() == 1 && _context.grid.plan().parts == 1;
  StepPartners partners{_context.grid.world()};
  // A network on a single rank is clipped on the device without waiting.
  if (!alone) partners.squares = [this](const ExecSpace& on) { return squaresOfAll(on); };
  takeStep(space, _updaters, partners, [&] {
    _work->begin(reader, static_cast<std::uint64_t>(_context.length.runStep(position) - 1));
    _engine->runBatch(space);
  });
  if (_context.stages.back()->last())
    _context.report(space, *_updaters.back(), position, _number, _context.partition.joint.flops);
}

/// Finds once what `squaresOfAll` needs in every step.
void PipelineTraining::placeTensors() {
  for (const StagePlan& plan : _context.partition.stages) {
    const std::vector<StageTensor> tensors = parameterTensors(plan.allLayers());
    const std::size_t first = _tensor_count;
    _tensor_count += tensors.size();
    if (!_context.grid.owns(plan.index)) continue;
    const auto updater = static_cast<std::size_t>(plan.index - _context.grid.firstStage());
    const std::vector<StageTensor>& held = _updaters[updater]->local().stage.tensors();
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (!held[i].owned) continue;
      const StageTensor* const same = findTensor(tensors, held[i].layer, held[i].name);
      _tensor_places.push_back({updater, i, first + static_cast<std::size_t>(same - tensors.data())});
    }
  }
}

/// Squared norm of the whole network's gradient, summed tensor by tensor in layer order, whatever stages and
/// ranks they are on: the same bits as on one rank.
double PipelineTraining::squaresOfAll(const ExecSpace& space) const {
  std::vector<std::vector<double>> measured;
  for (const StageUpdater* updater : _updaters) measured.push_back(updater->tensorSquares(space));
  std::vector<double> squares(_tensor_count, 0.0);
  for (const TensorPlace& place : _tensor_places) squares[place.number] = measured[place.updater][place.held];
  // Exactly one rank of a chain contributes to each entry, and each part contributes its share.
  _context.grid.chain().sum(squares);
  if (_context.grid.plan().parts > 1) _context.grid.along(Axis::part).sum(squares);
  double sum = 0.0;
  for (const double square : squares) sum += square;
  return sum;
}

namespace {

class PipelineRules final : public StrategyRules {
 public:
  std::unique_ptr<Strategy> make(const RunContext& context) const override {
    return std::make_unique<PipelineTraining>(context, RunPhase::training);
  }
};

} // namespace

const StrategyRules& pipelineRules() {
  static const PipelineRules rules;
  return rules;
}

} // namespace partita
