#pragma once

#include "partita/strategy/local_stage.hpp"

namespace partita {

/// Ends a run whose loss has stopped being a finite number: throws RunError with the step, the stage and the
/// first layer in which something is not finite. `in` is the input of the batch on `tape`; `counted_from` the
/// step at which the stage's score was cleared last, `batches` how many losses of it make a step.
[[noreturn]] void failDiverged(const ExecSpace& space, const LocalStage& local, const Tape& tape,
                               const Matrix& in, std::int64_t counted_from, std::int64_t batches);

} // namespace partita
