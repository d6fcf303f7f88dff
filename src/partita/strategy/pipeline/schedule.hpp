#pragma once

#include "partita/config/run_config.hpp"

namespace partita {

/// What a rank of a pipeline does with a microbatch.
enum class PassKind { none, forward, backward };

/// How far a rank is with the microbatches of a batch. Each kind of operation takes them in order.
struct BatchProgress {
  std::int64_t forwards = 0, backwards = 0;                  ///< done
  std::int64_t live() const { return forwards - backwards; } ///< microbatches whose activations are kept
};

/// What the next forward and the next backward pass wait for: since when it is there, by a counter; negative:
/// it is not.
struct Arrivals {
  std::int64_t forward = -1, backward = -1;
  bool has(PassKind operation) const { return (operation == PassKind::forward ? forward : backward) >= 0; }
};

/// A schedule: the rule by which a rank chooses its next operation from what is there. All ranks keep the
/// order of the microbatches, so results do not depend on it (each gradient is the same sum in the same
/// order); time and memory do.
///
/// - message-driven: whatever is there, forward only within the window (Singh and Bhatele, arXiv 2110.13005)
/// - 1f1b: warm up, then one forward and one backward pass in turn (Narayanan et al., arXiv 2104.04473);
///   eager: with twice as many forward passes first
/// - gpipe: all forward passes, then all backward ones (Huang et al., arXiv 1811.06965)
class ScheduleRule {
 public:
  /// Rank `group` of `groups` in the pipeline.
  ScheduleRule(const StrategySection& strategy, int group, int groups, std::int64_t microbatches);

  std::int64_t window() const { return _window; } ///< most microbatches that are live at once
  /// Which operations may come next, whether what they wait for is there or not.
  bool mayForward(const BatchProgress& progress) const;
  bool mayBackward(const BatchProgress& progress) const;
  /// The next operation, or none: then it is to be waited for.
  PassKind choose(const BatchProgress& progress, const Arrivals& arrivals) const;

 private:
  bool _fixed; ///< order: it does not depend on what is there
  PipelineTie _tie;
  std::int64_t _microbatches, _window;
};

} // namespace partita
