#pragma once

#include "partita/plan/cost/cluster.hpp"

namespace partita {

/// The cluster as a file that `parseCluster` reads. Rates and times have six digits. Networks and
/// workers that would never be found, because earlier ones have the same names and numbers, are
/// left out.
std::string clusterText(const Cluster& cluster);

/// Reads a description of a cluster. If it does not set a name, its name is that of the file.
/// Throws UserError with all mistakes, "FILE:LINE:COLUMN: section/key: what is wrong".
Cluster loadCluster(const std::string& path);
/// The same for a text in memory; `name` replaces the name of the file.
Cluster parseCluster(const std::string& text, const std::string& name);

} // namespace partita
