#pragma once

#include "partita/strategy/stage_updater.hpp"

#include <functional>

namespace partita {

/// Trains one stage with its own loss, together with its replicas on other ranks.
class StageTrainer {
 public:
  StageTrainer(const RunConfig& config, LocalStage& local, Grid& grid, const UpdateSchedule& schedule);

  /// One step on a batch. `forwarded` is called after the forward pass: the output is on the tape of the
  /// stage, and the parameters are still those that made it.
  void step(const ExecSpace& space, const TypedMatrix& in, const Targets& targets,
            const std::function<void()>& forwarded = {});

  LocalStage& local() { return _local; }
  StageUpdater& updater() { return _updater; }

 private:
  void learn(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const Targets& targets);

  LocalStage& _local;
  StageUpdater _updater;
  StepPartners _partners;
  const RunConfig& _config;
  const Grid& _grid;
};

} // namespace partita
