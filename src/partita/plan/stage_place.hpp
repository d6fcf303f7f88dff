#pragma once

#include "partita/config/run_config.hpp"

#include <cstdint>

namespace partita {

/// The memory in which a rank computes, as far as it decides what lies there.
struct DeviceKind {
  std::int64_t real_bytes = sizeof(float);
  bool host = true;             ///< the host's own: what is pinned for a device lies there too
  bool staged_messages = false; ///< matrices get to MPI through pinned memory
  bool staged_sums = false;     ///< sums over the replicas do
};

/// A stage's place among those of its rank, and the rank's among the others.
struct StagePlace {
  int group = 0, groups = 1, replicas = 1;
  bool first = true, last = true; ///< of the stages of its rank

  bool receives() const { return first && group > 0; } ///< from the rank in front, while going forwards
  bool sends() const { return last && group + 1 < groups; }
};

/// How many samples a stage works on at once.
struct StageRows {
  StageRows(const StrategySection& strategy, const StagePlace& place, std::int64_t batch);

  std::int64_t share;       ///< samples of a batch that a replica has
  std::int64_t microbatch;  ///< and a microbatch of a pipeline
  std::int64_t pass;        ///< most in a pass: a microbatch, or with labels of its own the share
  std::int64_t live;        ///< microbatches between forward and backward pass at most
  std::int64_t live_before; ///< the same of the rank in front
};

} // namespace partita
