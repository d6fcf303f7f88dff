#pragma once

#include "partita/config/parameter_table.hpp"

namespace partita {

/// The parameters of `[strategy]`, bound to the fields of `strategy`, which must outlive the section.
Section describeStrategy(StrategySection& strategy);

} // namespace partita
