#include "partita/plan/pipeline_schedule.hpp"

#include "partita/plan/run_length.hpp"

namespace partita {

ScheduleRule::ScheduleRule(const StrategySection& strategy, int group, int groups, std::int64_t microbatches)
    : _fixed(strategy.pipeline.schedule != PipelineSchedule::message_driven), _tie(strategy.pipeline.tie),
      _microbatches(microbatches), _window(liveWindow(strategy, group, groups, microbatches)) {}

bool ScheduleRule::mayForward(const BatchProgress& progress) const {
  return progress.forwards < _microbatches && progress.live() < _window;
}

bool ScheduleRule::mayBackward(const BatchProgress& progress) const {
  return progress.live() > 0 && !(_fixed && mayForward(progress));
}

PassKind ScheduleRule::choose(const BatchProgress& progress, const Arrivals& arrivals) const {
  const bool forward = mayForward(progress) && arrivals.has(PassKind::forward),
             backward = mayBackward(progress) && arrivals.has(PassKind::backward);
  if (forward && backward) {
    const bool forward_first = _tie == PipelineTie::forward_first ||
                               (_tie == PipelineTie::fifo && arrivals.forward <= arrivals.backward);
    return forward_first ? PassKind::forward : PassKind::backward;
  }
  return forward ? PassKind::forward : backward ? PassKind::backward : PassKind::none;
}

} // namespace partita
