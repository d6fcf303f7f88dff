#pragma once

#include "partita/comm/mpi.hpp"

#include <string>

namespace partita {

/// The folder a run leaves behind; made by rank 0 with the effective deck in it.
class RunDirectory {
 public:
  /// `path` empty: no run directory. Collective; throws UserError on every rank where it cannot be made.
  RunDirectory(const Communicator& world, std::string path, const std::string& deck);

  bool exists() const { return !_path.empty(); }
  std::string file(const std::string& name) const { return exists() ? _path + "/" + name : std::string(); }
  /// A folder for files that vanish with the run: the run directory, or the system's temporary folder.
  std::string scratch() const;

 private:
  std::string _path;
};

/// The parameter file of a run directory, or the file itself. Throws UserError where there is none.
std::string parameterFileOf(const std::string& path);

} // namespace partita
