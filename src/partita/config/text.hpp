#pragma once

#include <string>
#include <vector>

namespace partita {

/// The valid name closest to a misspelt one, or an empty string where none is close enough to be meant.
/// Closeness counts insertions, deletions, replacements and swaps of neighbours (optimal string alignment;
/// Damerau, "A technique for computer detection and correction of spelling errors", CACM 7, 1964); case does
/// not count.
std::string nearestName(const std::string& name, const std::vector<std::string>& valid);

/// The end of an error message about a wrong name: "; did you mean 'x'?" or, where nothing is close, ";
/// valid: 'x', 'y'".
std::string suggestion(const std::string& name, const std::vector<std::string>& valid);

/// "'x', 'y', 'z'"
std::string quotedList(const std::vector<std::string>& names);

/// The shortest text that TOML reads back as exactly this real number.
std::string realText(double value);

} // namespace partita
