#pragma once

#include "commands.hpp"

namespace partita {

/// `partita plan place` for a deck: the fastest pipeline on at most `ranks` ranks, and the deck that trains
/// it.
void placeDeck(const PlaceArguments& arguments, std::int64_t ranks);

} // namespace partita
