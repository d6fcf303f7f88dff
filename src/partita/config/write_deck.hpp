#pragma once

#include "partita/config/run_config.hpp"

#include <string>
#include <vector>

namespace partita {

/// The first characters of an effective deck, by which it is recognised.
constexpr const char* effective_deck_mark = "# The effective deck: every key with the value that was used.\n";

/// The effective deck: every key with its value; `parseDeck` reads it back to the same configuration.
std::string writeDeck(const RunConfig& config);

/// The keys in which two decks differ, as "optimiser/learning_rate: 0.001 -> 0.01".
std::vector<std::string> deckChanges(const RunConfig& before, const RunConfig& now);

/// The reference page of all parameters, in Markdown.
std::string deckReference();

} // namespace partita
