#pragma once

#include "partita/config/run_config.hpp"
#include "partita/data/dataset.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/strategy/stage_updater.hpp"
#include "partita/strategy/training_clock.hpp"

#include <memory>
#include <optional>

namespace partita {

/// The file to go on from. `restart` "latest": the newest checkpoint of the run directory that is whole
/// (others are skipped with a warning), or nothing where there is none; else the file of that name, which has
/// to be whole. Collective; throws UserError on every rank.
std::string chooseRestart(const Communicator& world, const std::string& restart,
                          const std::string& run_directory);

/// What of an earlier run goes into this one.
struct Restart {
  std::string file; ///< empty: nothing, the run begins
  /// Open until it is read to the end: the run may rename or delete what it goes on from.
  std::shared_ptr<const RunFile> opened;
  std::optional<RunProgress> found; ///< none in a file of parameters only
  Position start;
  bool keeps_state = false; ///< the optimiser goes on
  bool one_scale = false;   ///< of the loss for all stages, as gradients cross their cuts
  bool same_stages = false; ///< so do the sums of the history, which belong to a stage

  /// Whose values a replica goes on with: its own where replicas differ, otherwise those of the first.
  int replicaOf(const RunConfig& config, int replica) const;
  RunTimes spent() const; ///< before
  double elapsed() const { return keeps_state ? found->elapsed_seconds : 0.0; }
  Traffic traffic() const { return keeps_state ? found->traffic : Traffic{}; }
};

/// Decides where to go on: at the step found where the deck trains the same stages in the same way; at the
/// same step of another strategy where all stages had learnt alike; else at the beginning, with the
/// parameters found. Tells what carries over and what does not. `deck` as it was given, `config` what it came
/// to. Throws UserError where the file is beyond the end of the deck.
Restart planRestart(const std::string& file, const RunConfig& deck, const RunConfig& config,
                    const Partition& partition, const RunLength& length, const DataSets& sets, int replicas);

/// Puts an updater that has taken no step where the run goes on. Returns whether the file has all that the
/// updater keeps besides the state of its optimiser.
bool restoreUpdater(const ExecSpace& space, const Restart& restart, const RunConfig& config, const Grid& grid,
                    StageUpdater& updater);

} // namespace partita
