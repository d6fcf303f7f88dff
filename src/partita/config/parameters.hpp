#pragma once

#include "partita/config/parameter_table.hpp"

namespace partita {

/// The parameters of a deck, bound to the fields of `config`, which must outlive the table.
ParameterTable describe(RunConfig& config);

} // namespace partita
