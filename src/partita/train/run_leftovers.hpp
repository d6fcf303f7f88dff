#pragma once

#include <string>
#include <vector>

namespace partita {

/// Files with the name of one that a run is writing, but which no run of ours has left.
std::vector<std::string> foreignPartialFiles(const std::string& run_directory);

/// Removes what a killed run of ours was writing, and what its MPI library left beside that.
void removeUnfinishedFiles(const std::string& run_directory);

} // namespace partita
