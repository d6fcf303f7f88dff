#pragma once

#include "partita/comm/message_path.hpp"
#include "partita/comm/mpi.hpp"
#include "partita/core/types.hpp"

namespace partita {

/// Small sums over the replicas of a stage in the middle of a pass or at the end of a step: one blocking
/// all-reduce each, in the same order on all of them. All replicas end with the same bits.
class ReplicaReduce {
 public:
  /// `largest`: the most values in a call; `bytes` counts the payload.
  ReplicaReduce(const Communicator& peers, MessagePath path, std::int64_t largest, std::int64_t& bytes);

  void sum(const ExecSpace& space, const Vector& values) const;
  /// The mean over the replicas, in place.
  void average(const ExecSpace& space, const Vector& values) const;

 private:
  const Communicator& _peers;
  MessagePath _path;
  PinnedVector _staging; ///< where messages are staged
  std::int64_t& _bytes;
};

} // namespace partita
