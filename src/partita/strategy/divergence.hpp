#pragma once

#include "partita/strategy/local_stage.hpp"

namespace partita {

/// Ends a run whose loss has stopped being a finite number: throws RunError with the step, the stage and the
/// first layer in which something is not finite. `in` is the input of the batch on the stage's tape;
/// `counted_from` the step at which the stage's score was cleared last.
[[noreturn]] void failDiverged(const ExecSpace& space, const LocalStage& local, const Matrix& in,
                               std::int64_t counted_from);

} // namespace partita
