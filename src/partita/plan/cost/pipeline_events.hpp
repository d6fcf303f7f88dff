#pragma once

#include "partita/config/run_config.hpp"

#include <cstdint>
#include <vector>

namespace partita {

/// One stage of a pipeline, for one microbatch.
struct PipelineStage {
  double forward = 0.0, backward = 0.0; ///< seconds
  double message = 0.0; ///< seconds to send its output to the next stage, or the gradient of that back
};

/// Random delays: each operation takes up to `amplitude` times longer, a function of the seed, the stage and
/// the operation.
struct PipelineJitter {
  double amplitude = 0.0;
  std::uint64_t seed = 1;
};

/// Seconds of a step of `segments` microbatches, by simulation of all operations: T(i, s) = max(T(i-1, s) +
/// message, end of the stage's operation before) + its own time. `gpipe` runs all forward passes of a stage
/// before its backward passes; every other schedule is simulated as 1F1B.
double pipelineSeconds(const std::vector<PipelineStage>& stages, std::int64_t segments,
                       PipelineSchedule schedule, const PipelineJitter& jitter = {});

/// Most microbatches whose activations stage `stage` of `stages` keeps.
std::int64_t liveSegments(std::int64_t stage, std::int64_t stages, std::int64_t segments,
                          PipelineSchedule schedule);

} // namespace partita
