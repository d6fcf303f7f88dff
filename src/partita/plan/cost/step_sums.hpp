#pragma once

#include "partita/plan/cost/gradient_buckets.hpp"
#include "partita/plan/cost/stage_time.hpp"

namespace partita {

/// The sums of a stage's gradients over so many ranks, whose ring takes this path.
Exchange gradientSums(const Cluster& cluster, const RingPath& path, int ranks,
                      const std::vector<GradientLayer>& layers, const BucketRule& rule);

/// What the ranks of a run add up over replicas in a step, for all stages and parts at once.
class StepSums {
 public:
  StepSums(const CostTerms& terms, const ProgramRun& run);

  /// The sums of a stage's gradients. Parts that divide places have the same parameters, and add up their
  /// gradients too.
  Exchange gradients(const std::vector<GradientLayer>& layers, const BucketRule& rule) const;
  /// Sums of a stage's statistics in a step of so many passes; nothing is computed meanwhile.
  Exchange norms(const StageTime& stage, double passes) const;

 private:
  const Cluster& _cluster;
  std::int64_t _real_bytes;
  int _replicas, _summing;          ///< ranks that add up statistics, and gradients
  RingPath _statistics, _gradients; ///< of their rings
};

} // namespace partita
