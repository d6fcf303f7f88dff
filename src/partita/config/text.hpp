#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace partita {

/// The valid name closest to a misspelt one, or an empty string if none is close enough. Closeness counts
/// insertions, deletions, replacements and swaps of neighbours (optimal string alignment; Damerau, "A
/// technique for computer detection and correction of spelling errors", CACM 7, 1964); case does not count.
std::string nearestName(const std::string& name, const std::vector<std::string>& valid);

/// The end of an error message about a wrong name: "; did you mean 'x'?" or, if nothing is close, "; valid:
/// 'x', 'y'".
std::string suggestion(const std::string& name, const std::vector<std::string>& valid);

/// The first form alone: "; did you mean 'x'?", or nothing.
std::string nearby(const std::string& name, const std::vector<std::string>& valid);

/// "'x', 'y', 'z'"
std::string quotedList(const std::vector<std::string>& names);

/// The text as a string of TOML or JSON: in quotation marks, with escapes for these and for control
/// characters.
std::string quoted(const std::string& text);

/// "x, y, z" with `between` = ", ".
std::string joined(const std::vector<std::string>& words, const std::string& between);
std::string joined(const std::vector<std::int64_t>& numbers, const std::string& between);

/// The text as one line of a message, whoever wrote the names in it: control characters become spaces, and a
/// text of more than 4000 bytes loses its middle.
std::string asLine(const std::string& text);

/// "1 stage", "3 stages"; "es" follows "ch" and "s".
std::string counted(std::int64_t count, const std::string& noun);

/// The parts of a text that `separator` terminates or separates: "x", "y" of "x,y" and "x,y,".
std::vector<std::string> split(const std::string& text, char separator);

/// Some editors put a mark (EF BB BF) before a text in UTF-8.
std::string_view withoutByteOrderMark(std::string_view text);

bool endsWith(const std::string& text, const std::string& end);

/// The text that std::printf would print. Compilers check the values against the format.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

/// The shortest text that TOML reads back as exactly this real number.
std::string realText(double value);

} // namespace partita
