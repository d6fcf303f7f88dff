#pragma once

#include "partita/config/validate.hpp"

namespace partita {

/// What strategy/kind 'hogbatch' requires of a deck, and which keys require it.
void validateHogbatch(const RunConfig& config, Diagnostics& diagnostics);

} // namespace partita
