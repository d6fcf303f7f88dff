#pragma once

#include "partita/comm/message.hpp"
#include "partita/plan/grid_plan.hpp"

namespace partita {

/// The ranks of a run as stage groups x replicas (group index fastest). Collective to make.
class Grid {
 public:
  Grid(const Communicator& world, const GridPlan& plan, MessagePaths paths = {});

  const GridPlan& plan() const { return _plan; }
  const MessagePaths& paths() const { return _paths; } ///< of this rank
  const Communicator& world() const { return _world; }
  const Communicator& chain() const { return _chain; }           ///< the groups of my replica, by group
  const Communicator& backward() const { return _backward; }     ///< as chain, for gradients of activations
  const Communicator& evaluation() const { return _evaluation; } ///< as chain, for messages of the evaluation
  const Communicator& control() const { return _control; }       ///< as world, for log rows
  const Communicator& peers() const { return _peers; }           ///< the replicas of my group, by replica

  /// To rank `peer` of one of the communicators above, on the path that this rank's messages take.
  Channel channel(const Communicator& comm, int peer, Tag tag, const char* what) const {
    return {comm, peer, tag, what, _paths.messages, _paths.wire};
  }

  int group() const { return _chain.rank(); }
  int replica() const { return _peers.rank(); }
  int replicas() const { return _plan.replicas; }
  int firstStage() const { return _plan.first_stage[static_cast<std::size_t>(group())]; }
  int endStage() const { return _plan.first_stage[static_cast<std::size_t>(group()) + 1]; }
  bool owns(int stage) const { return stage >= firstStage() && stage < endStage(); }

  Traffic traffic; ///< what this rank has sent so far

 private:
  GridPlan _plan;
  MessagePaths _paths;
  Communicator _world, _chain, _backward, _evaluation, _control, _peers;
};

} // namespace partita
