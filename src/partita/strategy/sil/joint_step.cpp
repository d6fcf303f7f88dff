#include "partita/strategy/sil/joint_step.hpp"

#include "partita/comm/wait.hpp"
#include "partita/comm/wait_times.hpp"

namespace partita {

bool JointStep::due(const StrategySection& strategy, std::int64_t number) {
  return strategy.sil.joint_every > 0 && number % strategy.sil.joint_every == 0;
}

JointStep::JointStep(const RunContext& context, std::vector<StageUpdater*> updaters, std::int64_t first)
    : _context(context), _updaters(std::move(updaters)), _passes(_updaters.size()), _inputs(_updaters.size()),
      _ready(_updaters.size()) {
  Grid& grid = context.grid;
  const std::int64_t every = context.config.strategy.sil.joint_every,
                     count = context.length.steps / every - first / every,
                     rows = largestShare(context.config.training.batch, grid.replicas());
  const Stage &front = context.stages.front()->stage, &back = context.stages.back()->stage;
  if (!front.plan().first()) {
    const Precision stored = front.inputPrecision();
    _to_previous = TypedRows("partita::JointStep::to_previous", stored, rows, front.inputs());
    _back = std::make_unique<Sender>(
        grid.channel(grid.backward(), grid.group() - 1, Tag::backward, waits::activation_gradients, stored),
        rows, front.inputs(), 1, grid.traffic.between_stages);
  }
  if (!back.plan().last())
    _from_next = std::make_unique<Receiver>(grid.channel(grid.backward(), grid.group() + 1, Tag::backward,
                                                         waits::activation_gradients, back.outputPrecision()),
                                            rows, back.outputs(), 1, count);
}

void JointStep::run(const ExecSpace& space, const std::vector<BatchSource>& sources, Sender* onward) {
  alive();
  // Gradients that overflow in one stage reach all stages before it, so all ranks skip the step.
  takeStep(space, _updaters, {_context.grid.world()}, [&] {
    forward(space, sources, onward);
    backward(space);
  });
}

void JointStep::finish() {
  if (_back != nullptr) _back->finish();
}

void JointStep::forward(const ExecSpace& space, const std::vector<BatchSource>& sources, Sender* onward) {
  for (std::size_t i = 0; i < _updaters.size(); ++i) {
    StageUpdater& updater = *_updaters[i];
    LocalStage& local = updater.local();
    const StageBatch batch = sources[i](space);
    _passes[i] = trainingPass(_context.config, _context.grid, updater.step());
    _inputs[i] = batch.in;
    local.stage.forward(space, _passes[i], batch.in, local.tape);
    if (onward != nullptr && i + 1 == _updaters.size()) onward->send(space, local.tape.joinedOutput());
    _ready[i] = updater.gradientReady(space);
    const TypedMatrix out = local.outputForLoss(space, local.tape),
                      own = local.lossGradient(space, _passes[i], out, batch.targets, updater.lossWeight(),
                                               _ready[i]);
    local.stage.addReconstruction(space, _passes[i], batch.in, out, updater.lossWeight(), own, _ready[i]);
    updater.checkLoss(space, local.tape, batch.in);
    if (local.last()) _gradient_of_loss = own;
  }
}

/// Where the gradient of a stage's input goes: into the work buffer of the stage before it, which is where
/// that stage expects it, or into a message.
TypedMatrix JointStep::inputGradient(std::size_t stage) const {
  if (stage > 0) {
    const LocalStage& before = _updaters[stage - 1]->local();
    return before.stage.gradientFor(before.tape.output());
  }
  if (_back == nullptr) return {};
  return _to_previous.shaped(_inputs[0].rows, _inputs[0].columns);
}

void JointStep::backward(const ExecSpace& space) {
  for (std::size_t i = _updaters.size(); i-- > 0;) {
    LocalStage& local = _updaters[i]->local();
    const bool from_next = _from_next != nullptr && i + 1 == _updaters.size();
    const TypedMatrix out = local.tape.output();
    TypedMatrix gradient =
        local.last() ? _gradient_of_loss : local.stage.gradientFor(out); // where the next stage has left it
    if (from_next) gradient = _from_next->next(space);
    local.stage.backward(space, _passes[i], _inputs[i], local.tape, gradient, inputGradient(i), _ready[i]);
  }
  if (_back != nullptr) _back->send(space, inputGradient(0));
}

} // namespace partita
