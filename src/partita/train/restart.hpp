#pragma once

#include "partita/config/run_config.hpp"
#include "partita/data/dataset.hpp"
#include "partita/io/shared_run_file.hpp"
#include "partita/strategy/stage_updater.hpp"
#include "partita/strategy/training_clock.hpp"

#include <memory>
#include <optional>

namespace partita {

/// Returns the file to continue from. If `restart` is "latest", this is the newest intact checkpoint of the
/// run directory (damaged ones are skipped with a warning), or empty if there is none; otherwise the file of
/// that name, which must be intact. Collective; throws UserError on every rank.
std::string chooseRestart(const Communicator& world, const std::string& restart,
                          const std::string& run_directory);

/// What this run takes over from an earlier one.
struct Restart {
  std::string file; ///< empty: nothing, the run starts afresh
  /// Open until it has been read completely: the run may rename or delete the file it continues from.
  std::shared_ptr<const SharedRunFile> opened;
  std::optional<RunProgress> found; ///< empty if the file holds parameters only
  Position start;
  std::int64_t kept_step = -1; ///< run step of the last checkpoint; negative: that of the start
  bool asked = false;          ///< this rank has been asked for a checkpoint
  bool keeps_state = false;    ///< the state of the optimiser continues
  bool one_scale = false;      ///< one loss scale for all stages, as gradients cross their cuts
  bool same_stages = false;    ///< the sums of the history, which belong to a stage, continue as well

  /// The replica whose values a replica continues with: its own if replicas differ, otherwise the first.
  int replicaOf(const RunConfig& config, int replica) const;
  bool replicasDiffer(const RunConfig& config) const; ///< does each continue with values of its own?
  RunTimes spent() const;                             ///< before this run
  double elapsed() const { return keeps_state ? found->elapsed_seconds : 0.0; }
  Traffic traffic() const { return keeps_state ? found->traffic : Traffic{}; }
};

/// Decides where to continue: at the stored step if the deck trains the same stages in the same way; at the
/// same step of another strategy if all stages had taken the same steps; otherwise at the beginning, with the
/// stored parameters. Logs what carries over and what does not. `deck` is as given, `config` the effective
/// one. `from` null: the run starts afresh. Throws UserError if the file is beyond the end of the deck.
Restart planRestart(const std::shared_ptr<const SharedRunFile>& from, const RunConfig& deck,
                    const RunConfig& config, const Partition& partition, const RunLength& length,
                    const DataSets& sets, int replicas);

/// Sets an updater that has taken no step to the point where the run continues. Returns whether the file has
/// all vectors that are required besides the state of its optimiser. Collective over the replicas, unless
/// they differ.
bool restoreUpdater(const ExecSpace& space, const Restart& restart, const RunConfig& config, const Grid& grid,
                    StageUpdater& updater);

} // namespace partita
