#pragma once

#include "partita/comm/message.hpp"
#include "partita/comm/rank_sum.hpp"
#include "partita/comm/traffic.hpp"
#include "partita/plan/grid_plan.hpp"

#include <array>
#include <map>

namespace partita {

/// The ranks of a run on the axes of its plan, with a communicator for each axis. A rank that owns no stage
/// is alone on every axis and takes part in `world` only. Construction is collective.
class Grid {
 public:
  Grid(const Communicator& world, const GridPlan& plan, MessagePaths paths = {});

  const GridPlan& plan() const { return _plan; }
  const MessagePaths& paths() const { return _paths; } ///< of this rank
  const Communicator& world() const { return _world; }
  /// The ranks that differ from this one only in their position on one axis, in the order of that axis.
  const Communicator& along(Axis axis) const { return _along[static_cast<std::size_t>(axis)]; }
  const Communicator& chain() const { return along(Axis::stage); }   ///< the groups of my replica
  const Communicator& peers() const { return along(Axis::replica); } ///< the replicas of my group
  /// The ranks with the same stages: their replicas and parts.
  const Communicator& family() const { return _family; }
  /// Do all of them run device kernels, or all of them host kernels? They may be different builds.
  bool familyIsAlike() const { return _family_is_alike; }
  const Communicator& backward() const { return _backward; }     ///< as chain, for gradients of activations
  const Communicator& evaluation() const { return _evaluation; } ///< as chain, for messages of the evaluation

  /// A channel to rank `peer` of one of the communicators above, on the message path of this rank, for values
  /// that are stored in this precision at both ends. They are sent as the deck says.
  Channel channel(const Communicator& comm, int peer, Tag tag, const char* what, Precision stored) const {
    return {comm, peer, tag, what, _paths.messages, _paths.wire, stored};
  }
  /// The same for values that are sent as they are stored, whatever the deck says.
  Channel exactChannel(const Communicator& comm, int peer, Tag tag, const char* what,
                       Precision stored) const {
    return {comm, peer, tag, what, _paths.messages, stored, stored};
  }

  bool ownsStages() const { return _plan.ownsStages(_world.rank()); }
  int group() const { return along(Axis::stage).rank(); }
  int replica() const { return along(Axis::replica).rank(); }
  int replicas() const { return _plan.replicas; }
  int part() const { return along(Axis::part).rank(); }
  int firstStage() const { return ownsStages() ? _plan.first_stage[group()] : 0; }
  int endStage() const { return ownsStages() ? _plan.first_stage[group() + 1] : 0; }
  bool owns(int stage) const { return stage >= firstStage() && stage < endStage(); }
  /// Is this rank the one that reports for its stages if all their replicas and parts agree?
  bool speaks() const { return ownsStages() && replica() == 0 && part() == 0; }

  /// How the devices of one of the communicators above add up values; null: MPI does. Collective when it is
  /// first called for these ranks.
  std::shared_ptr<DeviceSums> deviceSums(const Communicator& ranks);

  Traffic traffic; ///< what this rank has sent so far

 private:
  GridPlan _plan;
  MessagePaths _paths;
  Communicator _world;
  std::array<Communicator, 3> _along;
  Communicator _family, _backward, _evaluation;
  bool _family_is_alike = true;
  std::map<const Communicator*, std::shared_ptr<DeviceSums>> _device_sums;
};

} // namespace partita
