#include "partita/config/toml_tree.hpp"

#include "partita/config/text.hpp"

// Some malformed decks ("[,run]") violate assertions of toml++ 3.3 just before it would refuse them; with
// NDEBUG it even passes these to the compiler as assumptions. Users must meet neither.
#undef NDEBUG
#define TOML_ASSERT(condition) static_assert(true)
#define TOML_MAX_NESTED_VALUES 32 // a deck needs three; code that walks through the values is recursive
#include <toml++/toml.h>

#include <algorithm>

namespace partita {
namespace {

TomlNode convert(const toml::node& source);

void convertTable(const toml::table& table, TomlNode& node) {
  node.kind = TomlNode::Kind::table;
  for (auto&& [key, value] : table) {
    TomlNode child = convert(value);
    child.key = std::string{key.str()};
    child.key_line = key.source().begin.line;
    child.key_column = key.source().begin.column;
    node.children.push_back(std::move(child));
  }
}

void convertList(const toml::array& array, TomlNode& node) {
  node.kind = TomlNode::Kind::list;
  for (const toml::node& value : array) node.children.push_back(convert(value));
}

TomlNode convert(const toml::node& source) {
  TomlNode node;
  node.line = source.source().begin.line;
  node.column = source.source().begin.column;
  if (const auto* table = source.as_table()) {
    convertTable(*table, node);
  } else if (const auto* array = source.as_array()) {
    convertList(*array, node);
  } else if (const auto* text = source.as_string()) {
    node.kind = TomlNode::Kind::text;
    node.text = text->get();
  } else if (const auto* integer = source.as_integer()) {
    node.kind = TomlNode::Kind::integer;
    node.integer = integer->get();
  } else if (const auto* real = source.as_floating_point()) {
    node.kind = TomlNode::Kind::real;
    node.real = real->get();
  } else if (const auto* boolean = source.as_boolean()) {
    node.kind = TomlNode::Kind::boolean;
    node.boolean = boolean->get();
  }
  return node;
}

/// The place after the string or comment that begins at `at`; `at` itself if none begins there.
std::size_t skipQuoted(const std::string& text, std::size_t at) {
  const char first = text[at];
  if (first == '#') return std::min(text.find('\n', at), text.size());
  if (first != '"' && first != '\'') return at;
  const bool many_lines = text.compare(at, 3, std::string(3, first)) == 0;
  const std::string close(many_lines ? 3 : 1, first);
  std::size_t i = at + close.size();
  while (i < text.size() && text.compare(i, close.size(), close) != 0) {
    if (!many_lines && text[i] == '\n') return i;
    i += first == '"' && text[i] == '\\' ? 2 : 1;
  }
  i += close.size();
  while (many_lines && i < text.size() && text[i] == first) ++i; // """a"""" ends with a quote
  return std::min(i, text.size());
}

/// Whether a byte of UTF-8 is the first one of its character.
bool startsCharacter(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

TomlError errorAt(const std::string& text, std::size_t at, const std::string& reason) {
  std::size_t line = 1, column = 1;
  for (std::size_t i = 0; i < at; ++i) {
    column = text[i] == '\n' ? 1 : column + (startsCharacter(text[i]) ? 1 : 0);
    line += text[i] == '\n' ? 1 : 0;
  }
  return {reason, line, column};
}

/// toml++ sets no limit on the number of parts of a key, and recurses for each, as `convert` does.
void refuseLongKeys(const std::string& text) {
  const std::string ends_key = "=,[]{}\n";
  std::size_t dots = 0;
  std::size_t i = 0;
  while (i < text.size()) {
    const std::size_t end = skipQuoted(text, i);
    if (ends_key.find(text[i]) != std::string::npos) dots = 0;
    if (text[i] == '.' && ++dots > TOML_MAX_NESTED_VALUES)
      throw errorAt(text, i, "the key has too many parts");
    i = end == i ? i + 1 : end;
  }
}

bool isAscii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

/// Is the character at a place reported by toml++ ASCII? Columns count characters.
bool isAsciiAt(const std::string& text, std::size_t line, std::size_t column) {
  std::size_t i = 0;
  for (; line > 1; --line) i = text.find('\n', i) + 1;
  for (; i < text.size(); ++i)
    if (startsCharacter(text[i]) && --column == 0) return isAscii(text[i]);
  return true;
}

/// What the parser says, and why if a table in braces has more than one line.
std::string explanationOf(const toml::parse_error& error) {
  std::string reason{error.description()};
  const bool in_braces = reason.find("inline table") != std::string::npos;
  for (const char* end : {"saw '\\n'", "saw '\\r'", "saw '#'"})
    if (in_braces && endsWith(reason, end)) return reason + "; TOML allows line breaks only inside [ ]";
  return reason;
}

/// TOML allows only ASCII outside strings and comments. toml++ up to 3.4 has undefined behaviour where it
/// meets another character instead of white space, so it first gets the text with a character that it refuses
/// at these places.
void refuseBareUnicode(const std::string& text) {
  std::string twin;
  for (const char c : text)
    if (startsCharacter(c)) twin += isAscii(c) ? c : '!';
  if (twin == text) return;
  refuseLongKeys(twin); // without its bytes that are not UTF-8, a quoted text may end earlier
  try {
    static_cast<void>(toml::parse(twin));
  } catch (const toml::parse_error& error) {
    const auto& place = error.source().begin;
    const bool ascii = isAsciiAt(text, place.line, place.column);
    throw TomlError(ascii ? explanationOf(error) : "only ASCII is allowed outside quotes and comments",
                    place.line, place.column);
  }
}

} // namespace

TomlNode parseToml(const std::string& text) {
  const std::string body(withoutByteOrderMark(text));
  refuseLongKeys(body);
  refuseBareUnicode(body);
  try {
    return convert(toml::parse(body));
  } catch (const toml::parse_error& error) {
    const auto& place = error.source().begin;
    throw TomlError(explanationOf(error), place.line, place.column);
  }
}

std::string inWords(const TomlNode& node) {
  switch (node.kind) {
  case TomlNode::Kind::boolean:
    return node.boolean ? "the boolean true" : "the boolean false";
  case TomlNode::Kind::integer:
    return "the integer " + std::to_string(node.integer);
  case TomlNode::Kind::real:
    return "the real number " + realText(node.real);
  case TomlNode::Kind::text:
    return "the text '" + node.text + "'";
  case TomlNode::Kind::list:
    return "a list";
  case TomlNode::Kind::table:
    return "a table";
  case TomlNode::Kind::other:
    break;
  }
  return "a date or time";
}

} // namespace partita
