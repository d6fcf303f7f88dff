#pragma once

#include "partita/strategy/run_context.hpp"
#include "partita/train/checkpoint_job.hpp"
#include "partita/train/monitor.hpp"
#include "partita/train/run_directory.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace partita {

/// What checkpoints need to know about a run; all members must outlive them. `facts` as in RunFileContent.
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
  std::int64_t samples; ///< in the training set
};

/// Everything that a checkpoint keeps of a run between two steps: the list of tensors, this rank's values,
/// and numbers to be summed over the ranks.
class RunSnapshot {
 public:
  /// `later`: values in host memory that only an update changes are not copied here, but left to the job.
  RunSnapshot(const CheckpointedRun& run, bool later) : _run(run), _later(later) {}

  std::size_t
  size() const;    ///< values in the largest checkpoint: parameters, statistics, moments of this rank
  void allocate(); ///< memory for it, zeroed: pages never touched before cost more than copies

  /// Fills in what `job` is to write. The values are stored here: the next call overwrites them.
  void take(const ExecSpace& space, const Position& position, const std::vector<StageUpdater*>& updaters,
            CheckpointJob& job);

 private:
  std::vector<std::string> kindsFor(const StagePlan& stage, const Position& position) const;
  bool ofEachReplica(const std::string& kind) const;
  bool writesHere(const std::string& kind, std::size_t number) const;
  void listTensors(CheckpointJob& job, const Position& position) const;
  void copyValues(const ExecSpace& space, CheckpointJob& job, const std::vector<StageUpdater*>& updaters);
  RunProgress progressAt(const Position& position) const;
  void takeOwnNumbers(const ExecSpace& space, const std::vector<StageUpdater*>& updaters,
                      CheckpointJob& job) const;

  const CheckpointedRun& _run;
  bool _later;
  Kokkos::View<Real*, Kokkos::LayoutRight, HostSpace> _copy;
};

} // namespace partita
