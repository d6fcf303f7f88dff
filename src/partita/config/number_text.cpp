#include "partita/config/number_text.hpp"

#include <charconv>

namespace partita {

std::string realText(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  // TOML tells real numbers from integers by their point or exponent.
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

} // namespace partita
