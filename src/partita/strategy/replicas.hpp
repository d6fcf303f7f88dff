#pragma once

#include "partita/strategy/stage_updater.hpp"

namespace partita {

/// How the replicas of a network learn together. One object per rank and run; collective.
class Replicas {
 public:
  virtual ~Replicas() = default;

  /// For the updater of a stage of this rank.
  virtual ReplicaLink link(LocalStage& local) = 0;
  /// Adds to a new updater what checkpoints have to keep for it.
  virtual void attach(StageUpdater& updater) { (void)updater; }
  /// Before the first step of an updater. `found`: a checkpoint had what `attach` added.
  virtual void begin(const ExecSpace& space, StageUpdater& updater, bool found) {
    (void)space;
    (void)updater;
    (void)found;
  }
  /// After step `step`. `last`: of the run, so that all replicas have to be the same network now.
  virtual void afterStep(const ExecSpace& space, std::int64_t step, bool last) {
    (void)space;
    (void)step;
    (void)last;
  }
};

/// Gradients are summed in each step: replicas stay copies of one another.
class SummedReplicas final : public Replicas {
 public:
  SummedReplicas(const RunConfig& config, Grid& grid) : _config(config), _grid(grid) {}
  ReplicaLink link(LocalStage& local) override { return summedGradients(_config, local, _grid); }

 private:
  const RunConfig& _config;
  Grid& _grid;
};

} // namespace partita
