#pragma once

#include "partita/plan/cost/cluster.hpp"
#include "partita/plan/pipeline_schedule.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace partita {

/// One rank of a pipeline, for one microbatch.
struct PipelineStage {
  double forward = 0.0, backward = 0.0; ///< seconds
  double message = 0.0;                 ///< seconds to send its output to the next rank, or its gradient back
  double copying = 0.0;                 ///< of `message`: while the receiver copies it and cannot compute
};

/// Factor on the time of an operation of a rank in the pipeline.
using OperationFactor = std::function<double(std::size_t stage, PassKind operation, std::int64_t segment)>;

/// Seconds of a step of `segments` microbatches, by simulation of all operations under the rules of the
/// engine in `strategy/pipeline`. A free rank starts the operation that its rule chooses among those whose
/// input has arrived: T(i, s) = max(T(i-1, s) + message - copying, end of its previous operation) + copying +
/// its own time. Rank i is on core i mod `at_once`, even while other cores are idle: a rank that waits for
/// a message polls at first, so to the operating system all cores are equally loaded. The ranks of a core
/// take turns: one keeps the core until it has nothing to do, or until its turn ends while another one waits
/// for it.
double pipelineSeconds(const std::vector<PipelineStage>& stages, std::int64_t segments,
                       const StrategySection& strategy, const CoreSharing& sharing = {},
                       const OperationFactor& factor = {});

} // namespace partita
