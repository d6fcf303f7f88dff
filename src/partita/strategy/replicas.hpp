#pragma once

#include "partita/strategy/stage_updater.hpp"

namespace partita {

/// How the replicas of a network learn together. One object per rank and run; collective.
class Replicas {
 public:
  virtual ~Replicas() = default;

  /// The link for the updater of a stage of this rank.
  virtual ReplicaLink link(LocalStage& local) = 0;
  /// Adds to a new updater the extra state that checkpoints must keep.
  virtual void attach(StageUpdater& updater) { (void)updater; }
  /// Called before the first step of an updater. `found`: a checkpoint contained what `attach` added.
  virtual void begin(const ExecSpace& space, StageUpdater& updater, bool found) {
    (void)space;
    (void)updater;
    (void)found;
  }
  /// Called after step `step`. `last`: it was the last of the run, so all replicas must now become the same
  /// network.
  virtual void afterStep(const ExecSpace& space, std::int64_t step, bool last) {
    (void)space;
    (void)step;
    (void)last;
  }
  /// Called instead if a run continues from a checkpoint and has no steps left.
  virtual void withoutSteps(const ExecSpace& space) { (void)space; }
};

/// Replicas that sum their gradients in each step and so stay copies of one another.
class SummedReplicas final : public Replicas {
 public:
  SummedReplicas(const RunConfig& config, Grid& grid) : _config(config), _grid(grid) {}
  ReplicaLink link(LocalStage& local) override { return summedGradients(_config, local, _grid); }

 private:
  const RunConfig& _config;
  Grid& _grid;
};

} // namespace partita
