#pragma once

#include "partita/config/parameter_table.hpp"

#include <string>
#include <vector>

namespace partita {

/// The parameters of `[strategy]`, bound to the fields of `strategy`, which must outlive the section.
Section describeStrategy(StrategySection& strategy);

/// The keys that have no effect on `joint`, the kind of a deck that names none.
std::vector<std::string> keysOfOtherKinds();

} // namespace partita
