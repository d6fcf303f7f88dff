#pragma once

#include "partita/plan/cost/prediction.hpp"

#include <algorithm>
#include <functional>
#include <vector>

namespace partita {

/// How a stage sums its gradients over replicas while it computes.
struct BucketRule {
  double bytes = 0.0; ///< of a bucket; a stage never uses more than 64
  bool late = false;  ///< are parameters updated only when the next forward pass needs them?
};
BucketRule bucketRule(const RunConfig& config);

/// A layer in a training step: seconds of its passes, and bytes of its gradient as sent, with the zeros that
/// pad each tensor.
struct GradientLayer {
  double forward = 0.0, backward = 0.0, bytes = 0.0;
  double forward_hides = 0.0, backward_hides = 0.0; ///< seconds of these in which messages of parts travel

  /// Seconds in which sums can travel.
  double forwardFree() const { return std::max(0.0, forward - forward_hides); }
  double backwardFree() const { return std::max(0.0, backward - backward_hides); }
};

/// A sum over the replicas: seconds for which it occupies the link, and latencies, during which other sums
/// use the link.
struct SumTime {
  double busy = 0.0, latency = 0.0;
};

/// Simulates the sums of a step. Gradients become final from the last layer to the first. Full buckets are
/// cut from the back, and the link sums one after another, with at most SumBuckets::most_at_once under way.
/// With late updates, every third bucket is held back until the end of the backward pass. The held buckets
/// then follow from the front, and each layer of the next forward pass waits for its own. Otherwise all are
/// awaited after the backward pass (docs/pipeline.md).
///
/// The same computing hides no two messages: while it hides those of parts, sums do not travel.
///
/// `all_reduce`: the time of a sum of this many bytes over the replicas. `overlap`: the fraction of a
/// message's time that computing can hide.
Exchange gradientExchange(const std::vector<GradientLayer>& layers, const BucketRule& rule,
                          std::int64_t replicas, double overlap,
                          const std::function<SumTime(double bytes)>& all_reduce);

} // namespace partita
