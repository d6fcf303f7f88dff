#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/train/run_files.hpp"
#include "partita/train/set_aside.hpp"

#include <memory>
#include <string>

namespace partita {

/// Where a run begins, and what it may replace of an earlier run in its directory.
struct RunStart {
  std::string file;       ///< checkpoint or parameters to continue from; empty: start afresh
  bool latest = false;    ///< the checkpoints of the directory were searched
  bool overwrite = false; ///< results of an earlier run may be removed
};

/// The output folder of a run: made by rank 0, and locked during the life of the object. A second job in the
/// same folder would destroy the results of the first one, so it is refused.
class RunDirectory {
 public:
  /// If `path` is empty, there is no run directory. Collective; throws AgreedError on every rank if it cannot
  /// be made, another job holds it, foreign files are in the way, or a rank does not see what rank 0 wrote
  /// there.
  RunDirectory(const Communicator& world, std::string path);

  /// Throws AgreedError if the run would replace results of an earlier one. Changes nothing. Collective.
  void admit(const Communicator& world, const RunStart& start) const;

  /// Sets files of others aside that have appeared with these names since the run began, with a warning. On
  /// rank 0 only; throws SystemError if the directory was moved, UserError if a file cannot be renamed.
  void makeRoom(const std::vector<std::string>& names) const;

  /// Prepares the directory for a run that has been admitted: writes the effective deck, and sets aside, or
  /// removes if `start` says so, whatever does not belong to the run. Links are set aside, too. Returns the
  /// name of the file to begin from, which may have changed. Collective.
  std::string prepare(const Communicator& world, const std::string& deck, const RunStart& start,
                      const TakenOver& taken) const;

  bool exists() const { return !_path.empty(); }
  /// Returns whether its path no longer leads to it: the folder was renamed, removed or replaced, and another
  /// run may use the path by now. Rank 0 alone knows; always false on other ranks.
  bool moved() const;
  void requireInPlace() const;                    ///< throws SystemError if it was moved
  bool owns(const std::string& checkpoint) const; ///< is the file one of this directory's checkpoints?
  /// The path by which such a file, or a link to it, is in the directory; empty if it is elsewhere.
  std::string nameHere(const std::string& checkpoint) const;
  const std::string& path() const { return _path; }
  std::string file(const std::string& name) const { return exists() ? _path + "/" + name : std::string(); }
  /// A folder for files that vanish with the run: the run directory, or otherwise the system's temporary
  /// folder.
  std::string scratch() const;

  /// Returns whether somebody has requested a checkpoint by making a file `output_now`, and removes that
  /// file.
  bool takeCheckpointRequest() const;

 private:
  void requireVisible(const Communicator& world) const;
  class Lock;
  std::string _path;
  std::shared_ptr<Lock> _lock;
};

} // namespace partita
