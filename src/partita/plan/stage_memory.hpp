#pragma once

#include "partita/plan/stage_place.hpp"
#include "partita/plan/stage_plan.hpp"

namespace partita {

/// Bytes of one stage in the memory of its rank's device.
struct StageMemory {
  std::int64_t parameters = 0;  ///< and running statistics, twice where steps may be left out
  std::int64_t gradients = 0;   ///< and a copy of them where sums over replicas are made in one
  std::int64_t optimiser = 0;   ///< its state, or the buffers through which that passes
  std::int64_t activations = 0; ///< of live passes, gradients on their way back, what losses and layers need
  std::int64_t buffers = 0;     ///< of batches and messages, while training
  std::int64_t evaluation = 0;  ///< the same of an evaluation, which comes beside the training
  std::int64_t offloaded = 0;   ///< state of the optimiser elsewhere; on a host in memory it is counted above
  std::int64_t total() const {
    return parameters + gradients + optimiser + activations + buffers + evaluation;
  }
};

/// May gradients overflow, being of 16 bits or summed in them? Then a step can be left out, and what it
/// changed before that is seen is kept twice.
bool leavesStepsOut(const RunConfig& config);

/// Memory of a stage that trains. What has a fixed and small size, such as sums of losses, is left out.
StageMemory stageMemory(const StagePlan& stage, const RunConfig& config, const StagePlace& place = {},
                        const DeviceKind& device = {});

} // namespace partita
