#include "partita/config/text.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <sstream>

namespace partita {

namespace {

std::string lowerCase(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::size_t distance(const std::string& a, const std::string& b) {
  const std::size_t rows = a.size() + 1, columns = b.size() + 1;
  std::vector<std::size_t> d(rows * columns);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return d[i * columns + j]; };
  for (std::size_t i = 0; i < rows; ++i) at(i, 0) = i;
  for (std::size_t j = 0; j < columns; ++j) at(0, j) = j;
  for (std::size_t i = 1; i < rows; ++i) {
    for (std::size_t j = 1; j < columns; ++j) {
      const std::size_t replaced = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

/// Number of letters that may be wrong: about a third of the word.
std::size_t tolerance(std::size_t length) {
  return std::max<std::size_t>(1, (length + 1) / 3);
}

} // namespace

std::string nearestName(const std::string& name, const std::vector<std::string>& valid) {
  std::string best;
  std::size_t best_distance = std::string::npos;
  for (const std::string& candidate : valid) {
    const std::size_t allowed = tolerance(std::max(name.size(), candidate.size()));
    const std::size_t lengths =
        std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size());
    if (lengths > allowed) continue; // cheap, and a very long wrong name costs nothing
    const std::size_t d = distance(lowerCase(name), lowerCase(candidate));
    if (d > allowed || d >= best_distance) continue;
    best = candidate;
    best_distance = d;
  }
  return best;
}

std::string nearby(const std::string& name, const std::vector<std::string>& valid) {
  const std::string near = nearestName(name, valid);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

std::string suggestion(const std::string& name, const std::vector<std::string>& valid) {
  const std::string near = nearby(name, valid);
  return near.empty() ? "; valid: " + quotedList(valid) : near;
}

std::string quoted(const std::string& text) {
  static const char* const digits = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (code < 0x20 || code == 0x7F)
      out += std::string("\\u00") + digits[code >> 4] + digits[code & 15];
    else
      out += c;
  }
  return out + '"';
}

std::string quotedList(const std::vector<std::string>& names) {
  return names.empty() ? "" : "'" + joined(names, "', '") + "'";
}

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string line;
  for (std::size_t i = 0; i < words.size(); ++i) line += (i > 0 ? between : "") + words[i];
  return line;
}

std::string joined(const std::vector<std::int64_t>& numbers, const std::string& between) {
  std::vector<std::string> words;
  words.reserve(numbers.size());
  for (const std::int64_t number : numbers) words.push_back(std::to_string(number));
  return joined(words, between);
}

std::string asLine(const std::string& text) {
  constexpr std::size_t most = 4000;
  std::string line = text;
  if (line.size() > most) {
    const auto continues = [&](std::size_t i) {
      return (static_cast<unsigned char>(line[i]) & 0xC0U) == 0x80U;
    };
    std::size_t begin = most / 2, end = line.size() - most / 2; // no letter is cut in two
    while (begin > 0 && continues(begin)) --begin;
    while (end < line.size() && continues(end)) ++end;
    line.replace(begin, end - begin, " [...] ");
  }
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return line;
}

std::string counted(std::int64_t count, const std::string& noun) {
  const bool hisses = endsWith(noun, "ch") || endsWith(noun, "s");
  return std::to_string(count) + " " + noun + (count == 1 ? "" : hisses ? "es" : "s");
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::string_view withoutByteOrderMark(std::string_view text) {
  const std::string_view mark = "\xEF\xBB\xBF";
  return text.substr(0, mark.size()) == mark ? text.substr(mark.size()) : text;
}

bool endsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::string formatted(const char* format, ...) {
  std::va_list values, again;
  va_start(values, format);
  va_copy(again, values);
  std::string text(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, format, values)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  va_end(values);
  return text;
}

std::string realText(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  // TOML tells real numbers from integers by their point or exponent.
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

} // namespace partita
