#pragma once

#include "partita/config/diagnostics.hpp"
#include "partita/config/run_config.hpp"

namespace partita {

/// What strategy/kind 'hogbatch' requires of a deck, and which keys require it.
void validateHogbatch(const RunConfig& config, Diagnostics& diagnostics);

} // namespace partita
