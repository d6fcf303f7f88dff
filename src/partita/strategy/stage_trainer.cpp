#include "partita/strategy/stage_trainer.hpp"

namespace partita {

/// A stage that learns by itself agrees only with its replicas and parts; other stages may be many steps
/// ahead.
StageTrainer::StageTrainer(const RunConfig& config, LocalStage& local, Grid& grid,
                           const UpdateSchedule& schedule)
    : _local(local),
      _updater(config, local, summedGradients(config, local, grid), schedule), _partners{grid.family()},
      _config(config), _grid(grid) {}

void StageTrainer::step(const ExecSpace& space, const TypedMatrix& in, const Targets& targets,
                        const std::function<void()>& forwarded) {
  const Pass pass = trainingPass(_config, _grid, _updater.step());
  takeStep(space, {&_updater}, _partners, [&] {
    _local.stage.forward(space, pass, in, _local.tape);
    if (forwarded) forwarded();
    learn(space, pass, in, targets);
  });
}

void StageTrainer::learn(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                         const Targets& targets) {
  const Stage::GradientReady ready = _updater.gradientReady(space);
  const TypedMatrix out = _local.outputForLoss(space, _local.tape),
                    gradient = _local.lossGradient(space, pass, out, targets, _updater.lossWeight(), ready);
  _updater.checkLoss(space, _local.tape, in);
  _local.stage.addReconstruction(space, pass, in, out, _updater.lossWeight(), gradient, ready);
  Pass backward = pass;
  backward.transport = _updater.lossWeight() * static_cast<Real>(_local.stage.plan().transport);
  _local.stage.backward(space, backward, in, _local.tape, gradient, {}, ready);
}

} // namespace partita
