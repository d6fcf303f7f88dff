#pragma once

#include "partita/comm/mpi.hpp"

#include <memory>
#include <string>

namespace partita {

/// Where a run begins, and what of an earlier run in its directory it may replace.
struct RunStart {
  std::string file;       ///< goes on from this checkpoint or these parameters; empty: from the beginning
  bool latest = false;    ///< it has looked for checkpoints of the directory
  bool overwrite = false; ///< results of an earlier run may go
};

/// The folder a run leaves behind: made by rank 0, and its own as long as the object lives. A second job in
/// the same folder would destroy the results of the first one, so it is refused.
class RunDirectory {
 public:
  /// `path` empty: no run directory. Collective; throws AgreedError on every rank where it cannot be made,
  /// another job has it, files that are not ours are in the way, or a rank does not see what rank 0 wrote
  /// there.
  RunDirectory(const Communicator& world, std::string path);

  /// Throws AgreedError where the run would replace results of an earlier one. Touches nothing. Collective.
  void admit(const Communicator& world, const RunStart& start) const;

  /// What of an earlier run in the directory belongs to the one that begins.
  struct Continued {
    bool history = false; ///< rows up to the checkpoint
    bool results = false; ///< the run has no steps to do, and makes the same results again
  };
  /// Makes it ready for a run that has been admitted: writes the effective deck, and sets aside, or removes
  /// if `start` says so, what does not belong to it. Collective.
  void prepare(const Communicator& world, const std::string& deck, const RunStart& start,
               const Continued& continued) const;

  bool exists() const { return !_path.empty(); }
  const std::string& path() const { return _path; }
  std::string file(const std::string& name) const { return exists() ? _path + "/" + name : std::string(); }
  /// A folder for files that vanish with the run: the run directory, or the system's temporary folder.
  std::string scratch() const;

  /// Has somebody asked for a checkpoint, by making a file `output_now`? It is removed.
  bool takeCheckpointRequest() const;

 private:
  bool owns(const std::string& checkpoint) const; ///< is the file one of this directory's checkpoints?
  void requireVisible(const Communicator& world) const;
  class Lock;
  std::string _path;
  std::shared_ptr<Lock> _lock;
};

} // namespace partita
