#pragma once

#include "partita/plan/stage_plan.hpp"

namespace partita {

/// Bytes of one stage on its rank; statistics count as parameters, twice where steps may be left out.
struct StageMemory {
  std::int64_t parameters = 0, gradients = 0, optimiser = 0, activations = 0;
  std::int64_t offloaded = 0; ///< state that is not on the device; then `optimiser` is what it passes through
  std::int64_t total() const { return parameters + gradients + optimiser + activations; }
};

/// What a stage keeps at once.
struct StageLoad {
  std::int64_t rows = 0;     ///< of a pass
  std::int64_t live = 1;     ///< passes between forward and backward
  std::int64_t messages = 0; ///< values in buffers of messages besides, a row of a pass
};

/// A stage's place among those of its rank.
struct PlaceOnRank {
  int group = 0, groups = 1;
  bool first = true, last = true;
};

/// What a stage keeps on its rank while it trains. `share`: samples of a batch that a replica has.
StageLoad stageLoad(const RunConfig& config, const StagePlan& stage, const PlaceOnRank& place,
                    std::int64_t share);

/// May gradients overflow, being of 16 bits or summed in them? Then a step can be left out, and what it
/// changed before that is seen is kept twice.
bool leavesStepsOut(const RunConfig& config);

/// Memory of a stage for values of `real_bytes`.
StageMemory stageMemory(const StagePlan& stage, const RunConfig& config, const StageLoad& load,
                        std::int64_t real_bytes);

} // namespace partita
