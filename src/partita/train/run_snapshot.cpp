#include "partita/train/run_snapshot.hpp"

#include "partita/core/types.hpp"
#include "partita/io/stage_tensors.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <utility>

namespace partita {

/// If replicas differ, each has its own values, except for what the strategy keeps for all of them.
bool RunSnapshot::ofEachReplica(const std::string& kind) const {
  const StrategySection& strategy = _run.config.strategy;
  const std::vector<std::string> shared = planOf(strategy).keptStates(strategy, _run.partition.stages.back());
  return planOf(strategy).replicasDiffer(strategy) &&
         std::find(shared.begin(), shared.end(), kind) == shared.end();
}

/// Replicas with the same values share the work of writing them.
bool RunSnapshot::writesHere(const std::string& kind, std::size_t number) const {
  const Grid& grid = _run.grid;
  return ofEachReplica(kind) || static_cast<int>(number % grid.replicas()) == grid.replica();
}

std::size_t RunSnapshot::size() const {
  const StrategySection& strategy = _run.config.strategy;
  const std::size_t states = optimiserStates(_run.config.optimiser).size();
  std::size_t values = 0;
  for (const auto& local : _run.stages) {
    const std::size_t kept = planOf(strategy).keptStates(strategy, local->stage.plan()).size();
    values += (1 + states + kept) * local->stage.masters().size() + local->stage.statistics().extent(0);
  }
  return values;
}

void RunSnapshot::allocate() {
  _copy = decltype(_copy)("partita::RunSnapshot::copy", size());
}

void RunSnapshot::take(const ExecSpace& space, const Position& position,
                       const std::vector<StageUpdater*>& updaters, CheckpointJob& job) {
  job.content.facts = _run.facts;
  job.content.progress = progressAt(position);
  listTensors(job, position);
  copyValues(space, job, updaters);
  takeOwnNumbers(space, updaters, job);
}

std::vector<std::string> RunSnapshot::kindsFor(const StagePlan& stage, const Position& position) const {
  std::vector<std::string> kinds{parameters_kind, statistics_kind};
  const bool one_by_one = _run.length.turns > 1 && position.phase == RunPhase::training;
  if (one_by_one && stage.index != position.stage) return kinds; // done, or not begun
  for (const std::string& name : optimiserStates(_run.config.optimiser)) kinds.push_back(name);
  const StrategySection& strategy = _run.config.strategy;
  if (position.phase == RunPhase::recovery) return kinds; // the stages learn as one
  for (const std::string& name : planOf(strategy).keptStates(strategy, stage)) kinds.push_back(name);
  return kinds;
}

/// The same list on every rank.
void RunSnapshot::listTensors(CheckpointJob& job, const Position& position) const {
  for (const StagePlan& stage : _run.partition.stages) {
    Partition alone;
    alone.stages = {stage};
    for (const std::string& kind : kindsFor(stage, position)) {
      const int copies = ofEachReplica(kind) ? _run.grid.replicas() : 1;
      for (int replica = 0; replica < copies; ++replica) {
        for (TensorRecord& tensor : networkTensors(alone, kind)) {
          tensor.kind = kindOfReplica(kind, replica);
          job.content.tensors.push_back(std::move(tensor));
        }
      }
    }
  }
  job.content.parts.assign(job.content.tensors.size(), {});
}

void RunSnapshot::copyValues(const ExecSpace& space, CheckpointJob& job,
                             const std::vector<StageUpdater*>& updaters) {
  if (_copy.extent(0) == 0)
    _copy = decltype(_copy)(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::RunSnapshot::copy"),
                            size());
  fence(space, "partita::RunSnapshot::copyValues"); // after all updates, wherever the state lies
  std::size_t used = 0;
  const auto copy = [&](const std::string& kind, const Stage& stage, const StoredVector& values) {
    const std::string stored = ofEachReplica(kind) ? kindOfReplica(kind, _run.grid.replica()) : kind;
    for (const StageTensor& tensor : tensorsOf(stage, kind)) {
      const auto& tensors = job.content.tensors;
      const TensorRecord* const found = findRecord(tensors, stored, tensor.layer, tensor.name);
      if (found == nullptr || !tensor.owned) continue;
      const std::size_t number = found - tensors.data();
      if (!writesHere(kind, number)) continue;
      Real* to = _copy.data() + used;
      // A forward pass already changes statistics: only values that nothing but an update changes may be left
      // to the thread.
      if (_later && values.onHost() != nullptr && kind != statistics_kind) {
        job.copies.push_back({values, tensor.offset, tensor.size, to});
      } else {
        values.copyOut(space, tensor.offset, tensor.size, to);
      }
      job.content.place(number, tensor.slices, to);
      used += tensor.size;
    }
  };
  for (const auto& local : _run.stages) {
    copy(parameters_kind, local->stage, local->stage.masters());
    copy(statistics_kind, local->stage, StoredVector(local->stage.statistics()));
  }
  for (StageUpdater* updater : updaters) {
    for (const Optimiser::State& state : updater->states())
      copy(state.name, updater->local().stage, state.values);
  }
}

RunProgress RunSnapshot::progressAt(const Position& position) const {
  RunProgress progress;
  progress.position = position;
  progress.run_step = _run.length.runStep(position);
  progress.samples = _run.samples;
  progress.per_epoch = _run.length.per_epoch;
  progress.seed = _run.config.run.seed;
  progress.stages = _run.grid.plan().stages;
  progress.replicas = _run.grid.replicas();
  progress.ranks = _run.grid.world().size();
  return progress;
}

/// Those that are later summed over the ranks.
void RunSnapshot::takeOwnNumbers(const ExecSpace& space, const std::vector<StageUpdater*>& updaters,
                                 CheckpointJob& job) const {
  const Grid& grid = _run.grid;
  RunProgress& progress = *job.content.progress;
  progress.traffic = grid.traffic;
  if (grid.world().rank() == 0) {
    const RunTimes times = _run.clock.times();
    progress.elapsed_seconds = _run.monitor.seconds();
    progress.training_seconds = times.training;
    progress.evaluation_seconds = times.evaluation;
  }
  progress.scores.resize(progress.stages * progress.replicas);
  progress.updates.resize(progress.stages);
  for (StageUpdater* updater : updaters) {
    if (grid.part() > 0) break; // all parts have the same
    const Score::Sums sums = updater->local().score.peek(space);
    const int stage = updater->local().index();
    progress.scores[progress.scoreIndex(stage, grid.replica())] = {sums.loss, sums.correct, sums.rows};
    if (grid.replica() > 0) continue; // all replicas have the same
    progress.updates[stage] = updater->updateState();
  }
  job.reports.resize(grid.world().size());
  job.reports[grid.world().rank()] = static_cast<double>(_run.monitor.sent());
}

} // namespace partita
