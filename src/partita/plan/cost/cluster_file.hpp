#pragma once

#include "partita/plan/cost/cluster.hpp"

namespace partita {

/// The cluster as a file that `parseCluster` reads: rates and times with six digits, and no networks and
/// workers that are not found because earlier ones have the same names and numbers.
std::string clusterText(const Cluster& cluster);

/// Reads a description of a cluster; without a name of its own it has that of the file. Throws UserError with
/// all mistakes, "FILE:LINE:COLUMN: section/key: what is wrong".
Cluster loadCluster(const std::string& path);
/// The same for a text in memory; `name` replaces the name of the file.
Cluster parseCluster(const std::string& text, const std::string& name);

} // namespace partita
