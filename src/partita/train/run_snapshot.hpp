#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/stored_vector.hpp"
#include "partita/io/write_run_file.hpp"
#include "partita/strategy/run_context.hpp"
#include "partita/train/monitor.hpp"
#include "partita/train/run_directory.hpp"

#include <atomic>

namespace partita {

/// Numbers of a run that ranks add up: each sets its own, and all others are 0.
struct RunNumbers {
  double between_stages = 0.0, between_replicas = 0.0, evaluation = 0.0;          ///< traffic, bytes
  double elapsed_seconds = 0.0, training_seconds = 0.0, evaluation_seconds = 0.0; ///< of rank 0
  std::vector<LossSums> scores;                                                   ///< as in RunProgress
  std::vector<UpdateState> updates;                                               ///< as in RunProgress
  std::vector<double> reports;                                                    ///< that each rank has sent

  /// Collective; the vectors are as long on every rank.
  void sum(const Communicator& comm);
  void copyTo(RunProgress& progress) const; ///< all but the reports
};

/// A checkpoint on its way: what the writing thread works on, and what it answers.
struct CheckpointJob {
  enum class State { copying, writing, written, naming, named };
  struct Copy {
    StoredVector from; ///< keeps the memory of a stage that is done with
    std::int64_t begin, size;
    Real* to;
  };

  std::vector<Copy> copies; ///< for the thread
  std::string partial, final_name;
  RunFileContent content;
  RunNumbers numbers; ///< of this rank; then summed over all
  int compression = 0;
  Clock::time_point start = Clock::now();
  double still_seconds = 0.0, write_seconds = 0.0;
  std::string failure;
  bool told = false; ///< that it takes long
  std::vector<std::string> set_aside;
  std::atomic<State> state{State::copying};

  /// What the thread does first: the state is safe from the next update then.
  void copy();
  /// Then it writes the file, under a name that tells it is not complete. A failure that all ranks know of
  /// leaves the run without this checkpoint; any other is of this rank alone, and the others would wait for
  /// it: the job ends. Collective.
  void write(const Communicator& comm);
  /// On rank 0, when the file is written: gives it its name once `history` is on the disk, sets aside later
  /// checkpoints of a run that had been there before, and keeps the newest `keep`.
  void publish(const std::string& run_directory, const std::string& history, std::size_t keep);
};

/// What went wrong in `work`, in words; empty: nothing.
template <class Work>
std::string failureOf(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

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
  bool ofEachReplica(const std::string& kind) const;
  bool writesHere(const std::string& kind, std::size_t number) const;
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
