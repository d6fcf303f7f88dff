#pragma once

#include <string>
#include <vector>

namespace partita {

/// Files with the name of one that a run is writing, but which no run of ours has left.
std::vector<std::string> foreignPartialFiles(const std::string& run_directory);

/// Throws UserError if a run in this directory would remove `file`, from which it is to begin: the name is
/// that of an unfinished file, or of a request for a checkpoint.
void refuseLeftover(const std::string& run_directory, const std::string& file);

/// Removes what a killed run of ours was writing, and what its MPI library left beside that.
void removeUnfinishedFiles(const std::string& run_directory);

} // namespace partita
