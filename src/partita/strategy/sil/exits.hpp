#pragma once

#include "partita/strategy/run_context.hpp"

namespace partita {

/// Chooses the weights with which the joined network adds up the log-probabilities of its stages: those with
/// the least cross-entropy on the validation set, with a small penalty for unequal weights. The problem is
/// convex; Newton's method solves it. The parameters of the stages do not change. Collective; all ranks
/// obtain the same weights.
void fitExits(const ExecSpace& space, const RunContext& context);

} // namespace partita
