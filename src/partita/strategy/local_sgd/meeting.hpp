#pragma once

#include "partita/comm/gradient_reducer.hpp"
#include "partita/optim/gradient_norm.hpp"
#include "partita/strategy/replicas.hpp"

#include <optional>

namespace partita {

/// Meetings of the replicas of one stage: the mean of what they learned since the last meeting becomes one
/// step of all of them. They sum the difference from the parameters of the last meeting, in the gradient
/// buffer, so that a meeting sends as much as the gradients of one step.
class StageMeeting {
 public:
  /// Adds the parameters of the last meeting, and the momentum of `nesterov`, to the checkpointed state.
  StageMeeting(const RunConfig& config, StageUpdater& updater, Grid& grid);

  StageUpdater& updater() { return _updater; }
  /// Takes the current parameters as those of the last meeting.
  void begin(const ExecSpace& space);
  /// Have the replicas learned nothing since the last meeting? Collective over the replicas.
  bool hasMet(const ExecSpace& space) const;
  /// Afterwards all replicas have the same parameters and statistics, bit for bit. `average`: x = a - d, with
  /// a the parameters of the last meeting and d the mean of a - x over the replicas (Lin et al., arXiv
  /// 1808.07217, algorithm 1). `nesterov`: v = mu v + d, x = a - rate (d + mu v) (Douillard et al., arXiv
  /// 2311.08105, algorithm 1). Collective over the replicas.
  void meet(const ExecSpace& space, OuterStep outer);

 private:
  void sum(const ExecSpace& space, double scale);
  bool overflowed(const ExecSpace& space);
  void subtract(const ExecSpace& space);
  void step(const ExecSpace& space, OuterStep outer);
  /// A bucket of all buffers that a meeting uses, on the device.
  struct Values {
    Real *parameters, *anchor, *momentum;
    void *rounded, *gradients;
  };
  Values valuesOf(const BucketStream::Bucket& bucket) const;

  const LocalSgdSection& _section;
  StageUpdater& _updater;
  const Communicator& _peers;
  int _replicas;
  double _first_scale; ///< factor on differences while they are summed, unless they overflow
  double _scale;       ///< the same in the last meeting
  ParameterBuffers _trained;
  StoredVector _anchor;   ///< the parameters of the last meeting
  StoredVector _momentum; ///< empty: the outer step has no momentum
  BucketStream _stream;
  GradientReducer _sum;
  std::optional<GradientNorm> _norm; ///< if a sum may overflow
  ReplicaReduce _statistics;
};

} // namespace partita
