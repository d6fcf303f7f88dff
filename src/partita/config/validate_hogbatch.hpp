#pragma once

#include "partita/config/validate.hpp"

namespace partita {

/// What strategy/kind 'hogbatch' asks of a deck, and which keys need it.
void validateHogbatch(const RunConfig& config, Diagnostics& diagnostics);

} // namespace partita
