#include "partita/strategy/recovery/recovery.hpp"

#include "partita/data/order.hpp"
#include "partita/strategy/evaluation.hpp"

#include <cmath>

namespace partita {

namespace {

constexpr int activation_tag = 4, gradient_tag = 5;

} // namespace

Recovery::Recovery(const RunContext& context)
    : _context(context), _first(context.start.phase == RunPhase::recovery ? context.start.step : 0),
      _evaluator(context, context.length.recovery_steps) {
  const std::int64_t messages = context.length.recovery_steps - _first;
  Grid& grid = context.grid;
  const std::int64_t capacity = localCapacity(context.config, grid.replicas()), depth = 1;
  for (const auto& local : context.stages) {
    _updaters.push_back(
        std::make_unique<StageUpdater>(context.config, *local, grid, context.config.strategy.recovery_rate,
                                       context.length.recovery_steps, context.length.per_epoch));
    _inputs.emplace_back();
    _input_gradients.push_back(local->index() == 0 ? Matrix()
                                                   : makeMatrix("partita::Recovery::input_gradient", capacity,
                                                                local->stage.inputs()));
  }
  const Stage &first = context.stages.front()->stage, &last = context.stages.back()->stage;
  if (grid.group() > 0) {
    _from_before = std::make_unique<Receiver>(
        grid.channel(grid.chain(), grid.group() - 1, activation_tag, "activations"), capacity, first.inputs(),
        depth, messages);
    _back = std::make_unique<Sender>(
        grid.channel(grid.chain(), grid.group() - 1, gradient_tag, "gradients of activations"), capacity,
        first.inputs(), depth, grid.traffic.between_stages);
  }
  if (grid.group() + 1 < grid.plan().groups) {
    _onward =
        std::make_unique<Sender>(grid.channel(grid.chain(), grid.group() + 1, activation_tag, "activations"),
                                 capacity, last.outputs(), depth, grid.traffic.between_stages);
    _from_behind = std::make_unique<Receiver>(
        grid.channel(grid.chain(), grid.group() + 1, gradient_tag, "gradients of activations"), capacity,
        last.outputs(), depth, messages);
  }
}

bool Recovery::run(const ExecSpace& space) {
  const Grid& grid = _context.grid;
  const FeatureRows features(_context.sets, _context.sets.train);
  const Dataset& train = _context.sets.train;
  const std::int64_t steps = _context.length.recovery_steps,
                     before = _context.config.run.epochs * _context.length.per_epoch;
  BatchReader reader(grid.group() == 0 ? &features : nullptr, train,
                     trainingOrder(train.size(), _context.seed(), _context.config.training.batch,
                                   grid.replica(), grid.replicas(), before + _first),
                     steps - _first, localCapacity(_context.config, grid.replicas()),
                     _context.config.data.prefetch);
  std::vector<StageUpdater*> updaters;
  for (auto& updater : _updaters) {
    if (_context.start.phase == RunPhase::recovery) _context.control.restore(space, *updater);
    updaters.push_back(updater.get());
  }
  grid.world().barrier();
  _context.clock.start();
  bool done = true;
  for (Position at{RunPhase::recovery, 0, _first}; done && at.step < steps;) {
    ++at.step;
    step(space, reader, at);
    const double seconds = _evaluator.afterStep(space, at, grid.plan().stages, 0);
    for (StageUpdater* updater : updaters) updater->pause(seconds);
    done = !_context.control.afterStep(space, at, updaters);
  }
  grid.world().barrier();
  _context.clock.stop();
  return done;
}

void Recovery::step(const ExecSpace& space, BatchReader& reader, const Position& position) {
  alive();
  const Batch& batch = reader.next(space);
  const bool reports = _updaters.back()->reports();
  const Pass pass =
      trainingPass(_context.config, _context.grid, _context.length.steps + _updaters.front()->step());
  forward(space, pass, batch);
  backward(space, pass, batch);
  for (auto& updater : _updaters) updater->completeGradient(space);
  const bool clips = _context.config.optimiser.clip_norm > 0.0;
  const double squares = clips || reports ? squaresOfAll(space) : 0.0;
  for (auto& updater : _updaters) updater->update(space, clips ? squares - updater->squaredNorm(space) : 0.0);
  if (!reports || !_context.stages.back()->last()) return;
  StepReport report = _updaters.back()->report(space, 0, _context.partition.joint_flops);
  report.gradient_norm = std::sqrt(squares);
  report.run_step = _context.length.runStep(position);
  if (_context.grid.replica() == 0) _context.observer.onStep(report);
}

void Recovery::forward(const ExecSpace& space, const Pass& pass, const Batch& batch) {
  Matrix flow = _from_before != nullptr ? _from_before->next(space) : batch.features;
  for (std::size_t i = 0; i < _context.stages.size(); ++i) {
    _inputs[i] = flow;
    flow = _context.stages[i]->forwardJoined(space, pass, flow);
  }
  if (_onward != nullptr) _onward->send(space, flow);
}

void Recovery::backward(const ExecSpace& space, const Pass& pass, const Batch& batch) {
  const std::int64_t rows = _context.stages.back()->tape.rows;
  Matrix grad;
  if (_from_behind != nullptr) {
    grad = _from_behind->next(space);
  } else {
    LocalStage& local = *_context.stages.back();
    grad = local.stage.outputGradient(rows);
    local.loss->evaluate(space, local.tape.output(), {batch.labels, Matrix()},
                         static_cast<Real>(1.0 / static_cast<double>(_context.config.training.batch)), grad,
                         local.score);
    _updaters.back()->checkLoss(space, _inputs.back());
  }
  for (std::size_t i = _context.stages.size(); i-- > 0;) {
    const Matrix before = _input_gradients[i].size() > 0 ? topRows(_input_gradients[i], rows) : Matrix();
    _context.stages[i]->backwardJoined(space, pass, _inputs[i], grad, before,
                                       _updaters[i]->gradientReady(space));
    grad = before;
  }
  if (_back != nullptr) _back->send(space, grad);
}

/// Squared norm of the whole network's gradient, summed in the order of the stages whatever ranks they lie
/// on.
double Recovery::squaresOfAll(const ExecSpace& space) {
  std::vector<double> squares(static_cast<std::size_t>(_context.grid.plan().stages), 0.0);
  for (std::size_t i = 0; i < _updaters.size(); ++i) {
    squares[static_cast<std::size_t>(_context.stages[i]->index())] = _updaters[i]->squaredNorm(space);
  }
  _context.grid.chain().sum(squares); // one rank alone contributes to each entry
  double sum = 0.0;
  for (const double square : squares) sum += square;
  return sum;
}

} // namespace partita
