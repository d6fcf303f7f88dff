#pragma once

#include "partita/config/diagnostics.hpp"
#include "partita/config/run_config.hpp"

namespace partita {

/// Checks that involve several parameters: contradictory combinations, and what a choice requires. Checks
/// that depend on the data or on the number of ranks are made where these are known.
void validate(const RunConfig& config, Diagnostics& diagnostics);
/// The same for the ways in which ranks divide the work.
void validateRanks(const RunConfig& config, Diagnostics& diagnostics);

} // namespace partita
