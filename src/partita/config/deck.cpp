#include "partita/config/deck.hpp"

#include "partita/config/files.hpp"
#include "partita/config/names.hpp"
#include "partita/config/parameter_reader.hpp"
#include "partita/config/parameters.hpp"
#include "partita/config/strategy_parameters.hpp"
#include "partita/config/text.hpp"
#include "partita/config/toml_tree.hpp"
#include "partita/config/user_error.hpp"
#include "partita/config/validate.hpp"

#include <algorithm>
#include <optional>

namespace partita {
namespace {

constexpr std::uint64_t most_bytes = 64 << 20; // an effective deck of 100,000 layers, each with all its keys

/// Names that begin with a word of three letters or more.
std::vector<std::string> beginningWith(const std::string& word, const std::vector<std::string>& names) {
  constexpr std::size_t enough = 3;
  std::vector<std::string> found;
  for (const std::string& name : names)
    if (word.size() >= enough && name.compare(0, word.size(), word) == 0) found.push_back(name);
  return found;
}

/// What is wrong with a value that begins like a list or a table but is not valid TOML; empty for any other
/// value.
std::string openList(const std::string& value, const std::string& reason) {
  if (value.empty() || (value.front() != '[' && value.front() != '{')) return {};
  std::string wanted; // closing brackets, the innermost last
  char quote = '\0';
  for (const char c : value) {
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      wanted += c == '[' ? ']' : '}';
    } else if (c == ']' || c == '}') {
      if (wanted.empty() || wanted.back() != c) break;
      wanted.pop_back();
    }
  }
  if (wanted.empty()) return "not TOML: " + reason;
  const std::string wrong = "'" + wanted.substr(wanted.size() - 1) + "' is missing";
  return wrong;
}

/// `section/key=value` or `section.key=value`.
struct Override {
  std::string section, key, value;
};

/// The parts of an override; none if the text has another form.
std::optional<Override> splitOverride(const std::string& text) {
  const std::size_t equals = text.find('='), slash = text.find_first_of("/.");
  if (equals == std::string::npos || slash >= equals) return std::nullopt;
  return Override{text.substr(0, slash), text.substr(slash + 1, equals - slash - 1), text.substr(equals + 1)};
}

/// Is it an override of a section that exists? A path can have the same form.
bool looksLikeOverride(const std::string& text) {
  RunConfig config;
  const std::optional<Override> parts = splitOverride(text);
  return parts && describe(config).find(parts->section) != nullptr;
}

std::string readFile(const std::string& path) {
  if (regularFileExists(path, ", not a deck")) return readTextFile(path, most_bytes);
  if (looksLikeOverride(path))
    throw UserError(path + ": no such deck; the deck comes first, and then overrides such as this one");
  throw UserError(path + ": no such deck" + nearestInFolder(path));
}

/// Fills a configuration from a deck, then from overrides.
class DeckReader {
 public:
  explicit DeckReader(const std::string& name)
      : _deck(Source::deck(name)), _table(describe(_config)), _diagnostics(_deck) {}
  DeckReader(const DeckReader&) = delete; // the table points into the configuration
  DeckReader& operator=(const DeckReader&) = delete;

  void readDeck(const std::string& text);
  void readOverride(const std::string& text, std::size_t index);
  RunConfig finish();

 private:
  void readSection(const TomlNode& node);
  void unknownKey(const Place& place, const Section& section, const std::string& key);
  void setFromShell(const Parameter& parameter, const std::string& name, const std::string& value,
                    const Source& source);

  RunConfig _config;
  Source _deck;
  ParameterTable _table;
  Diagnostics _diagnostics;
  bool _readable = true;
};

void DeckReader::readDeck(const std::string& text) {
  try {
    for (const TomlNode& section : parseToml(text).children) readSection(section);
  } catch (const TomlError& error) {
    _readable = false;
    _diagnostics.error(_deck.at(error.line, error.column), "", std::string("not TOML: ") + error.what());
  }
}

void DeckReader::readSection(const TomlNode& node) {
  const Place place = _deck.at(node.key_line, node.key_column);
  const Section* section = _table.find(node.key);
  const std::string home = _table.home(node.key);
  if (section == nullptr && !home.empty() && node.kind != TomlNode::Kind::table)
    return _diagnostics.error(place, node.key, "key outside its section; did you mean '" + home + "'?");
  if (section == nullptr)
    return _diagnostics.error(place, node.key, "unknown section" + suggestion(node.key, _table.names()));
  if (node.kind != TomlNode::Kind::table)
    return _diagnostics.error(place, node.key,
                              "expected the section [" + node.key + "], found " + inWords(node));
  for (const TomlNode& child : node.children) {
    if (const Parameter* parameter = section->find(child.key))
      readParameter(*parameter, section->name + "/" + child.key, child, _deck, _diagnostics);
    else
      unknownKey(_deck.at(child.key_line, child.key_column), *section, child.key);
  }
}

void DeckReader::unknownKey(const Place& place, const Section& section, const std::string& key) {
  if (_diagnostics.full()) return _diagnostics.countMore(); // searching for near names takes time
  const std::vector<std::string> begin = beginningWith(key, section.keys());
  std::string near = _table.home(key); // the key of another section
  if (near.empty()) near = nearestName(key, section.keys());
  if (near.empty() && begin.empty()) near = _table.home(nearestName(key, _table.keys()));
  std::string advice = near.empty() ? "" : "; did you mean '" + near + "'?";
  if (near.empty() && !begin.empty()) advice = "; did you mean one of " + quotedList(begin) + "?";
  _diagnostics.error(place, section.name + "/" + key, "unknown key" + advice);
}

void DeckReader::readOverride(const std::string& text, std::size_t index) {
  const Source source = Source::commandLine(text, index);
  const Place place = source.at(0, 0);
  const std::optional<Override> parts = splitOverride(text);
  if (!parts) return _diagnostics.error(place, "", "expected section/key=value");
  const Section* section = _table.find(parts->section);
  if (section == nullptr)
    return _diagnostics.error(place, parts->section,
                              "unknown section" + suggestion(parts->section, _table.names()));
  const Parameter* parameter = section->find(parts->key);
  if (parameter == nullptr) return unknownKey(place, *section, parts->key);
  setFromShell(*parameter, parts->section + "/" + parts->key, parts->value, source);
}

void DeckReader::setFromShell(const Parameter& parameter, const std::string& name, const std::string& value,
                              const Source& source) {
  TomlNode bare;
  bare.kind = TomlNode::Kind::text;
  bare.text = value;
  TomlNode node = bare;
  if (validUtf8(value) != value) return _diagnostics.error(source.at(0, 0), name, "is not valid UTF-8");
  try {
    const TomlNode root = parseToml("value = " + value);
    if (root.children.size() == 1) node = root.children.front();
  } catch (const TomlError& error) {
    const std::string wrong = openList(value, error.what());
    if (!wrong.empty() && !std::holds_alternative<std::string*>(parameter.target))
      return _diagnostics.error(source.at(0, 0), name, wrong);
  } // otherwise a shell has removed the quotes
  // A folder called 2024 is still a text.
  const bool wants_text = std::holds_alternative<std::string*>(parameter.target) ||
                          std::holds_alternative<Choice>(parameter.target);
  if (wants_text && node.kind != TomlNode::Kind::text) node = bare;
  readParameter(parameter, name, node, source, _diagnostics);
}

RunConfig DeckReader::finish() {
  if (_readable) validate(_config, _diagnostics);
  _diagnostics.throwIfAny();
  return _config;
}

} // namespace

RunConfig loadDeck(const std::string& path, const std::vector<std::string>& overrides) {
  return parseDeck(readFile(path), path, overrides);
}

RunConfig parseDeck(const std::string& text, const std::string& name,
                    const std::vector<std::string>& overrides) {
  DeckReader reader(name);
  reader.readDeck(text);
  for (std::size_t i = 0; i < overrides.size(); ++i) reader.readOverride(overrides[i], i);
  return reader.finish();
}

bool setsParameter(const std::string& text) {
  RunConfig config;
  const ParameterTable table = describe(config);
  const std::optional<Override> parts = splitOverride(text);
  const Section* section = parts ? table.find(parts->section) : nullptr;
  return section != nullptr && section->find(parts->key) != nullptr;
}

namespace {

/// The setting of a deck that leaves a parameter without effect; empty if there is none.
std::string settingAgainst(const Section& section, const Parameter& parameter) {
  const Condition& condition = parameter.only_with;
  if (condition.choices.empty()) return {};
  const Choice& other = std::get<Choice>(section.find(condition.key)->target);
  const std::string& chosen = other.names.at(other.get());
  const bool read = std::count(condition.choices.begin(), condition.choices.end(), chosen) > 0;
  return read ? "" : section.name + "/" + condition.key + " '" + chosen + "'";
}

} // namespace

std::vector<UnusedKey> withoutEffect(const std::vector<std::string>& overrides, RunConfig deck) {
  const ParameterTable table = describe(deck);
  const StrategyKind kind = deck.strategy.kind;
  const std::vector<std::string> of_other_kinds = keysWithoutEffect(kind);
  std::vector<UnusedKey> found;
  for (const std::string& text : overrides) {
    const std::optional<Override> parts = splitOverride(text);
    const Section* section = parts && !parts->value.empty() ? table.find(parts->section) : nullptr;
    const Parameter* parameter = section == nullptr ? nullptr : section->find(parts->key);
    if (parameter == nullptr) continue;
    std::string setting = settingAgainst(*section, *parameter);
    if (section->name == "strategy" &&
        std::count(of_other_kinds.begin(), of_other_kinds.end(), parts->key) > 0)
      setting = "strategy/kind '" + nameOf(kind) + "'";
    if (!setting.empty()) found.push_back({section->name + "/" + parts->key, setting});
  }
  return found;
}

} // namespace partita
