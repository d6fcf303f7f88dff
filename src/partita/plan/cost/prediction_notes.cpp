#include "partita/plan/cost/prediction_notes.hpp"

#include "partita/config/names.hpp"

namespace partita {

std::optional<std::string> noteOnProducts(const CostTask& task, const Cluster& cluster) {
  const Precision precision = task.program->deck().run.precision;
  if (cluster.knownFlops(precision) > 0.0 || task.timing.seconds_per_sample > 0.0) return {};
  const std::string name = nameOf(precision);
  const std::string message = "run/precision: products in " + name +
                              " are predicted to be as fast as in float, because " + cluster.name +
                              " has no compute/" + name + "_flops";
  return message;
}

std::optional<std::string> noteOnLinks(const Cluster& cluster, std::int64_t ranks) {
  const std::int64_t known = cluster.links.rows.back().ranks, on_node = cluster.node_ranks;
  if (cluster.links.assumed || ranks <= on_node || known > on_node) return {};
  const std::string message = "node/ranks: " + std::to_string(ranks) + " ranks need several nodes of " +
                              std::to_string(on_node) + " ranks, but " + cluster.name +
                              " has messages of one node only; those between nodes are predicted to be as "
                              "fast";
  return message;
}

std::optional<std::string> noteOnNode(const Cluster& cluster, std::int64_t ranks) {
  if (ranks <= cluster.node_ranks) return {};
  const std::string message = "node/ranks: " + std::to_string(ranks) +
                              " ranks of this run share a node, but the nodes of " + cluster.name + " have " +
                              std::to_string(cluster.node_ranks) +
                              "; computing and messages are predicted for so many";
  return message;
}

} // namespace partita
