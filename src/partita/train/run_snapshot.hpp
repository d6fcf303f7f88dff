#pragma once

#include "partita/strategy/run_context.hpp"
#include "partita/train/checkpoint_job.hpp"
#include "partita/train/monitor.hpp"
#include "partita/train/run_directory.hpp"

namespace partita {

/// What checkpoints need to know of a run; all outlive it. `facts` as in RunFileContent.
struct CheckpointedRun {
  const RunConfig& config;
  const Partition& partition;
  Grid& grid;
  const std::vector<std::unique_ptr<LocalStage>>& stages;
  const RunLength& length;
  const TrainingClock& clock;
  Monitor& monitor;
  const RunDirectory& directory;
  RunFacts facts;
  std::int64_t samples; ///< of the training set
};

/// All that a checkpoint keeps of a run between two steps: what tensors there are, this rank's values of
/// them, and numbers that are to be summed over the ranks.
class RunSnapshot {
 public:
  /// `later`: what lies on a host until an update changes it is not copied, but left to the job.
  RunSnapshot(const CheckpointedRun& run, bool later) : _run(run), _later(later) {}

  std::size_t size() const; ///< of the largest one: values of parameters, statistics and moments on this rank
  void allocate();          ///< memory for it, zeroed: pages that were never touched cost more than copies

  /// Fills what `job` is to write. The values lie here: the next one overwrites them.
  void take(const ExecSpace& space, const Position& position, const std::vector<StageUpdater*>& updaters,
            CheckpointJob& job);

 private:
  std::vector<std::string> kindsFor(const StagePlan& stage, const Position& position) const;
  void listTensors(CheckpointJob& job, const Position& position) const;
  void copyValues(const ExecSpace& space, CheckpointJob& job, const std::vector<StageUpdater*>& updaters);
  RunProgress progressAt(const Position& position) const;
  RunNumbers ownNumbers(const ExecSpace& space, const std::vector<StageUpdater*>& updaters,
                        const RunProgress& progress) const;

  const CheckpointedRun& _run;
  bool _later;
  Kokkos::View<Real*, Kokkos::LayoutRight, HostSpace> _copy;
};

} // namespace partita
