#pragma once

#include "partita/plan/cost/prediction.hpp"

namespace partita {

/// The name that the cost model has for the strategy of a deck; `data` stands for `joint` on any number of
/// ranks without parts.
CostStrategy costStrategy(const StrategySection& section);

/// The strategy section with which `train` runs what a prediction in exact mode describes. Keys of the deck
/// for the same strategy are kept.
StrategySection sectionFor(const RankChoice& choice, const StrategySection& deck);

} // namespace partita
