#pragma once

#include "partita/plan/cost/prediction.hpp"

namespace partita {

/// The name that the cost model has for the strategy of a deck; `data` stands for `joint` on any number of
/// ranks without parts.
CostStrategy costStrategy(const StrategySection& section);

/// The strategy section with which `train` does what a prediction in exact mode is about. What the deck says
/// about the same strategy is kept.
StrategySection sectionFor(const RankChoice& choice, const StrategySection& deck);

} // namespace partita
