#include "partita/plan/stage_place.hpp"

#include "partita/plan/pipeline_plan.hpp"
#include "partita/plan/strategy_plan.hpp"

namespace partita {

StageRows::StageRows(const StrategySection& strategy, const StagePlace& place, std::int64_t batch)
    : share((batch + place.replicas - 1) / place.replicas), microbatch(microbatchRows(strategy, share)),
      pass(planOf(strategy).passRows(share, microbatch)) {
  const std::int64_t count = microbatchesOf(strategy, share);
  live = liveWindow(strategy, place.group, place.groups, count);
  live_before = place.group > 0 ? liveWindow(strategy, place.group - 1, place.groups, count) : 0;
}

} // namespace partita
