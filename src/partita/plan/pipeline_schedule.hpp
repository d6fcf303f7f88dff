#pragma once

#include "partita/config/run_config.hpp"

namespace partita {

/// What a rank of a pipeline does with a microbatch.
enum class PassKind { none, forward, backward };

/// A rank's progress in the microbatches of a batch. Each kind of operation processes them in order.
struct BatchProgress {
  std::int64_t forwards = 0, backwards = 0;                  ///< done
  std::int64_t live() const { return forwards - backwards; } ///< microbatches whose activations are kept
};

/// When the inputs of the next forward and the next backward pass arrived, as values of a counter; negative:
/// not yet.
struct Arrivals {
  std::int64_t forward = -1, backward = -1;
  bool has(PassKind operation) const { return (operation == PassKind::forward ? forward : backward) >= 0; }
};

/// A schedule: the rule by which a rank chooses its next operation from those whose input has arrived. All
/// ranks keep the order of the microbatches, so results do not depend on the schedule (each gradient is the
/// same sum in the same order); time and memory do.
///
/// - message-driven: whatever has arrived, forward only within the window (Singh, Bhatele, arXiv 2110.13005)
/// - 1f1b: warm-up, then forward and backward passes alternate (Narayanan et al., arXiv 2104.04473);
///   eager: with a warm-up of twice as many forward passes
/// - gpipe: all forward passes, then all backward ones (Huang et al., arXiv 1811.06965)
class ScheduleRule {
 public:
  /// Rank `group` of `groups` in the pipeline.
  ScheduleRule(const StrategySection& strategy, int group, int groups, std::int64_t microbatches);

  std::int64_t window() const { return _window; } ///< the most live microbatches
  /// Which operations may come next, whether or not their input has arrived.
  bool mayForward(const BatchProgress& progress) const;
  bool mayBackward(const BatchProgress& progress) const;
  /// The next operation; none: the rank has to wait.
  PassKind choose(const BatchProgress& progress, const Arrivals& arrivals) const;

 private:
  bool _fixed; ///< the order does not depend on arrivals
  PipelineTie _tie;
  std::int64_t _microbatches, _window;
};

} // namespace partita
