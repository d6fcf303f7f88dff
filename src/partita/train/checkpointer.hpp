#pragma once

#include "partita/core/asynchronous.hpp"
#include "partita/train/run_files.hpp"
#include "partita/train/run_snapshot.hpp"

namespace partita {

/// Writes checkpoints of a run into its directory. The state is copied between two steps, on a host until
/// parameters next change; all ranks write their parts of one file while training goes on. A file gets its
/// name when it is complete and the history up to its step is on the disk; then older ones beyond
/// `checkpoint/keep` go.
class Checkpointer {
 public:
  /// `background`: writes in a thread of its own, which MPI must allow. Collective.
  Checkpointer(CheckpointedRun run, bool background);

  /// Copies the state at `position` and begins to write it; waits for the checkpoint before, if that is still
  /// being written. Collective. Throws RunError where a loss is not finite.
  void take(const ExecSpace& space, const Position& position, const std::vector<StageUpdater*>& updaters);
  /// To be called before parameters change: waits where the state is still being copied.
  void waitForCopy();
  /// Goes on with what has been written; to be called now and then.
  void poll();
  /// Waits until everything is written and named; false where the last one failed. Collective, but what a
  /// rank learns is its own: rank 0 alone gives names.
  bool finish();

  /// The newest finished checkpoint of this call of the program.
  std::string lastFile() const { return _run.directory.file(checkpointName(_last_step)); }
  bool busy() const { return _job != nullptr; } ///< one is being written
  /// Seconds that a checkpoint takes from its step to its name, by the last one or else by its size.
  double expectedSeconds() const;

 private:
  void publish();
  void tellResult();
  void tellIfSlow();

  CheckpointedRun _run;
  std::shared_ptr<const Communicator> _comm; ///< of the writing thread
  RunSnapshot _snapshot;
  std::shared_ptr<CheckpointJob> _job; ///< under way
  bool _failed = false;
  std::int64_t _last_step = 0;
  std::int64_t _largest_anywhere = 0; ///< values of the largest copy on a rank
  double _last_seconds = 0.0;
  BackgroundThread _thread;
};

} // namespace partita
