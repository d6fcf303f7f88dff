#pragma once

#include "partita/config/run_config.hpp"

namespace partita {

/// Learning rate of step 0 <= step < steps: linear warm-up, then constant, dropping by `step_factor` every
/// `step_epochs`, or falling on a half cosine to `final_fraction` (Loshchilov and Hutter, arXiv 1608.03983).
double learningRate(const OptimiserSection& optimiser, std::int64_t step, std::int64_t steps,
                    std::int64_t steps_per_epoch);

/// For a stage whose inputs still change while it learns: after the same warm-up, learning_rate (1 - (step /
/// steps)^4), which stays high for most of the run and falls to zero at its end.
double heldLearningRate(const OptimiserSection& optimiser, std::int64_t step, std::int64_t steps);

} // namespace partita
