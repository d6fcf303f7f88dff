#pragma once

#include "partita/plan/cost/cost_model.hpp"

#include <string>

namespace partita {

/// The training of a deck as the cost model sees it, with the memory of this program. Reads the data for
/// shapes and sizes. `path` of the deck: its name selects the timing of the cluster.
CostTask costTaskOf(const std::string& path, const RunConfig& config, const Cluster& cluster);

} // namespace partita
