#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace partita {

/// A value of a TOML document with its place, without the parser's own types.
struct TomlNode {
  enum class Kind { boolean, integer, real, text, list, table, other };

  Kind kind = Kind::other; ///< `other`: dates and times
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0.0;
  std::string text;
  std::vector<TomlNode> children; ///< of a list or a table
  std::size_t line = 0, column = 0;

  std::string key; ///< of an entry of a table
  std::size_t key_line = 0, key_column = 0;
};

/// Text that is not TOML. `what()` says why.
struct TomlError : std::runtime_error {
  TomlError(const std::string& reason, std::size_t at_line, std::size_t at_column)
      : std::runtime_error(reason), line(at_line), column(at_column) {}
  std::size_t line, column;
};

/// The root table of a document, TOML 1.0, UTF-8. Throws TomlError.
TomlNode parseToml(const std::string& text);

/// "the integer 3", "the text 'abc'", "a list": for messages.
std::string inWords(const TomlNode& node);

} // namespace partita
