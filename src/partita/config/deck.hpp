#pragma once

#include "partita/config/run_config.hpp"

#include <string>
#include <vector>

namespace partita {

/// Reads and checks a deck. Each override is `section/key=value` or `section.key=value`; the value is TOML,
/// or bare text if it is not valid TOML. Throws UserError with all mistakes, one line each:
/// "FILE:LINE:COLUMN: section/key: what is wrong". If the text is not valid TOML, only the first such place
/// is reported.
RunConfig loadDeck(const std::string& path, const std::vector<std::string>& overrides);

/// The same for a text that is already in memory; `name` replaces the file name in messages.
RunConfig parseDeck(const std::string& text, const std::string& name,
                    const std::vector<std::string>& overrides = {});

/// Returns whether a text is an override of a parameter that exists; its value need not be valid.
bool setsParameter(const std::string& text);

/// A key that has no effect with a setting of the deck.
struct UnusedKey {
  std::string key, setting; ///< "strategy/warmup_steps" with "strategy/kind 'joint'"
};

/// Those overrides of a deck whose keys have no effect on the run, in their order. A key of `[strategy]` does
/// without other kinds, one of `[data]` and `[optimiser]` without the choices that its parameter names. An
/// empty value takes a file away, and needs no effect.
std::vector<UnusedKey> withoutEffect(const std::vector<std::string>& overrides, RunConfig deck);

} // namespace partita
