#pragma once

#include "partita/config/diagnostics.hpp"
#include "partita/config/run_config.hpp"

namespace partita {

/// Checks what no single parameter shows: combinations that contradict each other, and what a choice needs.
/// What depends on the data or on the number of ranks is checked where these are known.
void validate(const RunConfig& config, Diagnostics& diagnostics);

} // namespace partita
