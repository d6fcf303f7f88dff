#pragma once

#include "partita/plan/cost/cost_model.hpp"

#include <optional>
#include <string>

namespace partita {

/// What a cluster file does not say, so that predictions go on from the nearest that it does say: one line
/// each, or nothing.

/// The rate of products in 16 bits, for a network of this precision that was not timed.
std::optional<std::string> noteOnProducts(const CostTask& task, const Cluster& cluster);
/// The messages between nodes.
std::optional<std::string> noteOnLinks(const Cluster& cluster, std::int64_t ranks);
/// A node on which more ranks compute; `ranks`: of a run, on the node that has most.
std::optional<std::string> noteOnNode(const Cluster& cluster, std::int64_t ranks);

} // namespace partita
