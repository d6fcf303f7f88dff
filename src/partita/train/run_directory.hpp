#pragma once

#include "partita/comm/mpi.hpp"

#include <memory>
#include <string>
#include <vector>

namespace partita {

/// The folder a run leaves behind: made by rank 0, and its own as long as the object lives. A second job in
/// the same folder would destroy the results of the first one, so it is refused.
class RunDirectory {
 public:
  /// `path` empty: no run directory. Collective; throws UserError on every rank where it cannot be made or
  /// another job has it.
  RunDirectory(const Communicator& world, std::string path);

  /// Makes it ready for a run that goes on from the file `restart`, or from none: writes the effective deck,
  /// removes results that would not belong to it, and sets checkpoints aside that are later than that file. A
  /// run that begins afresh where an earlier one has left checkpoints is refused, unless it has looked for
  /// them (`restart_asked`). Collective.
  void prepare(const Communicator& world, const std::string& deck, const std::string& restart,
               bool restart_asked) const;

  bool exists() const { return !_path.empty(); }
  std::string file(const std::string& name) const { return exists() ? _path + "/" + name : std::string(); }
  /// A folder for files that vanish with the run: the run directory, or the system's temporary folder.
  std::string scratch() const;

 private:
  void removePartial() const; // what a killed run was writing
  class Lock;
  std::string _path;
  std::shared_ptr<Lock> _lock;
};

/// `checkpoints/step-000000120.h5` of a run directory.
std::string checkpointName(std::int64_t run_step);
/// The finished checkpoints of a run directory, the newest first; none where there is no such folder.
std::vector<std::string> checkpointsIn(const std::string& run_directory);

/// Renames checkpoints of later steps than that of the file `than` (empty: all), which a later -r latest must
/// not take; their new names. Throws UserError where one keeps its name.
std::vector<std::string> setAsideLater(const std::string& run_directory, const std::string& than);

/// The parameter file of a run directory, or else its newest checkpoint, or the file itself. Throws UserError
/// where there is none.
std::string parameterFileOf(const std::string& path);

} // namespace partita
