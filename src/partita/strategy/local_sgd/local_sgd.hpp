#pragma once

#include "partita/strategy/local_sgd/meeting.hpp"
#include "partita/strategy/pipeline/pipeline.hpp"

namespace partita {

/// Replicas that learn alone and meet after every step during `strategy/warmup_steps`, then every
/// `strategy/every` steps, and at the end of the run.
class MeetingReplicas final : public Replicas {
 public:
  explicit MeetingReplicas(const RunContext& context) : _config(context.config), _grid(context.grid) {}

  ReplicaLink link(LocalStage&) override { return ownGradients(_config, _grid); }
  void attach(StageUpdater& updater) override;
  void begin(const ExecSpace& space, StageUpdater& updater, bool found) override;
  void afterStep(const ExecSpace& space, std::int64_t step, bool last) override;
  void withoutSteps(const ExecSpace& space) override;

 private:
  const RunConfig& _config;
  Grid& _grid;
  std::vector<std::unique_ptr<StageMeeting>> _meetings; ///< of the stages of this rank
};

/// Each replica trains the whole network on its share of the batches with its own optimiser: post-local SGD
/// (Lin et al., arXiv 1808.07217) or DiLoCo (Douillard et al., arXiv 2311.08105). Except for the meetings it
/// is a pipeline of one stage.
class LocalSgdTraining final : public Strategy {
 public:
  explicit LocalSgdTraining(const RunContext& context)
      : _training(context, RunPhase::training, std::make_unique<MeetingReplicas>(context)) {}
  bool run(const ExecSpace& space) override { return _training.run(space); }

 private:
  PipelineTraining _training;
};

const StrategyRules& localSgdRules();

} // namespace partita
