#pragma once

#include "partita/strategy/local_stage.hpp"

namespace partita {

/// Throws RunError for a stage whose loss is not finite: names the step, and the first place in the stage
/// whose values are not finite in the batch on `tape` with input `in`. `counted_from`: the step of the last
/// report; `batches`: losses per step. Waits for the device.
[[noreturn]] void failDiverged(const ExecSpace& space, const LocalStage& local, const Tape& tape,
                               const TypedMatrix& in, std::int64_t counted_from, std::int64_t batches);

} // namespace partita
