#pragma once

#include "partita/config/parameter_table.hpp"

#include <string>
#include <vector>

namespace partita {

/// The parameters of `[strategy]`, bound to the fields of `strategy`, which must outlive the section.
Section describeStrategy(StrategySection& strategy);

/// The keys that have no effect on `joint`, the kind of a deck that names none.
std::vector<std::string> keysOfOtherKinds();

/// The keys that have no effect on this kind, whatever other keys say. Those of cuts and of schedules are
/// left out: except for `hogbatch`, they matter to plans of a deck of any kind.
std::vector<std::string> keysWithoutEffect(StrategyKind kind);

} // namespace partita
