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

/// Those overrides whose keys have no effect on this kind of strategy: the keys in `[strategy]`.
std::vector<std::string> withoutEffect(const std::vector<std::string>& overrides, StrategyKind kind);

} // namespace partita
