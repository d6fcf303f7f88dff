#pragma once

#include "partita/comm/wait.hpp"
#include "partita/core/asynchronous.hpp"
#include "partita/train/run_files.hpp"
#include "partita/train/run_snapshot.hpp"
#include "partita/train/usual_time.hpp"

namespace partita {

/// Writes the checkpoints of a run into its directory. The state is copied between two steps (on a host,
/// until the parameters next change); all ranks then write their parts of one file while training goes on. A
/// file gets its final name when it is complete and the rows of all growing files up to its step are on the
/// disk; then older ones of the run beyond `checkpoint/keep` are deleted.
class Checkpointer {
 public:
  /// `background`: write in a separate thread, which MPI must allow. `own`: on rank 0, what the run may
  /// remove. Collective.
  Checkpointer(CheckpointedRun run, std::shared_ptr<OwnCheckpoints> own, bool background);
  ~Checkpointer() { waitForName(); }
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  /// Copies the state at `position` and begins to write it; first waits for the previous checkpoint if that
  /// is still being written. Collective. Throws RunError if a loss, or a value of the stages or their
  /// updaters, is not finite.
  void take(const ExecSpace& space, const Position& position, const std::vector<StageUpdater*>& updaters);
  /// See StepControl::keepNumbers.
  void keepNumbers(const std::vector<double>& numbers) { _numbers = numbers; }
  /// To be called before parameters change: waits while the state is still being copied.
  void waitForCopy();
  /// Continues with what has been written; to be called now and then.
  void poll();
  /// Waits until everything is written and named; returns false if the last checkpoint failed. Collective,
  /// but each rank only knows its own result: rank 0 alone renames files. Throws RunError if writing makes no
  /// progress for `run/watchdog` seconds.
  bool finish();
  /// Before this rank ends a job that has diverged: waits until the checkpoint of an earlier step has its
  /// name, which rank 0 may not have given it yet. If that fails, the job ends without it.
  void finishBeforeEnd();

  /// The newest checkpoint finished by this process.
  std::string lastFile() const { return _run.directory.file(checkpointName(_last_step)); }
  bool busy() const { return _job != nullptr; } ///< a checkpoint is being written
  bool isNamed() const;                         ///< does the last checkpoint have its final name?
  /// Waits if the thread of rank 0 is just naming a checkpoint: it would go on after this object, while the
  /// run that continues after a loss writes the next one.
  void waitForName() const;
  /// Seconds that a checkpoint takes from its step to its final name: measured on the last one, otherwise
  /// estimated from its size.
  double expectedSeconds() const;

 private:
  void publish();
  void finishJob();
  void reportResult();
  void reportIfSlow();

  CheckpointedRun _run;
  std::shared_ptr<const Communicator> _comm; ///< used by the writing thread
  RunSnapshot _snapshot;
  bool _represents; ///< is this replica the only one with its values, or the first of those that share them?
  std::shared_ptr<CheckpointJob> _job; ///< under way
  const std::shared_ptr<OwnCheckpoints> _own;
  std::vector<double> _numbers; ///< of the strategy
  std::string _partial;         ///< file of the last checkpoint, until rank 0 names it
  bool _failed = false;
  std::int64_t _last_step = -1;       ///< of the newest checkpoint finished by this process; -1: none
  std::int64_t _largest_anywhere = 0; ///< values in the largest copy on any rank
  std::int64_t _everywhere = 0;       ///< values in the file
  UsualTime _seconds{600.0};          ///< see expectedSeconds; a file system may be slow for a while
  BackgroundThread _thread;
  IdleHook _hook; ///< a rank that waits long for another one still names what is written
};

} // namespace partita
