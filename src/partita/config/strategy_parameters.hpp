#pragma once

#include "partita/config/parameter_table.hpp"

#include <string>
#include <vector>

namespace partita {

/// The parameters of `[strategy]`, bound to the fields of `strategy`, which must outlive the section.
Section describeStrategy(StrategySection& strategy);

/// The keys that have no effect on `joint`, the kind of a deck that names none.
std::vector<std::string> keysOfOtherKinds();

/// Keys that have no effect on this kind, whatever other keys say: those that only `sil`, `local-sgd` or
/// `hogbatch` reads, and those of schedules with `hogbatch`. Keys of cuts, and of schedules with other kinds,
/// are left out: other plans of the same deck may need them.
std::vector<std::string> keysWithoutEffect(StrategyKind kind);

} // namespace partita
