#pragma once

#include "partita/data/loaded_sets.hpp"

#include <cstdint>
#include <vector>

namespace partita {

/// The next-token task on a row of tokens: sample i is the window of `sequence` tokens from i x sequence on,
/// its labels the tokens one place later. What does not fill a window is left out. `limit` windows at most
/// are made (0: all). Throws UserError, beginning with `source`, where there is no whole window.
LoadedSet windowsOf(const std::vector<std::int32_t>& tokens, std::int64_t vocabulary, std::int64_t sequence,
                    std::int64_t limit, const std::string& source, Need need);

/// The two files of a deck of kind `text`, plain or gzip'd: a token is a byte, or what a vocabulary of byte
/// pairs makes of them.
LoadedSets readText(const DataSection& section, Need need);

} // namespace partita
