#pragma once

#include "partita/plan/stage_plan.hpp"

namespace partita {

/// The share of part `part` in `copy`, a copy between two `stages`: from its slices of the original to its
/// own slices of the copy. Throws UserError if parts divide the two differently.
ParameterCopy copyOnPart(const ParameterCopy& copy, const std::vector<StagePlan>& stages,
                         const StrategySection& strategy, int part);

} // namespace partita
