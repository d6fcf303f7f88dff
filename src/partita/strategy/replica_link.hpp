#pragma once

#include "partita/comm/gradient_exchange.hpp"
#include "partita/strategy/local_stage.hpp"

#include <memory>

namespace partita {

/// How a stage and its replicas learn together.
struct ReplicaLink {
  std::unique_ptr<GradientExchange> gradients;
  const Communicator& peers; ///< the replicas whose losses a report sums
  std::int64_t samples;      ///< samples whose gradients are combined in a step; a loss is the mean over them
  bool decide_alike = false; ///< may the devices of all peers decide on a step by the sum that they all see?
};

/// For replicas that sum their gradients in each step. The arguments must outlive the result.
ReplicaLink summedGradients(const RunConfig& config, const LocalStage& local, Grid& grid);
/// For replicas that learn alone, each from its share of a batch, and are synchronised in another way.
ReplicaLink ownGradients(const RunConfig& config, const Grid& grid);

} // namespace partita
