#include "partita/config/deck.hpp"
#include "partita/config/parameter_text.hpp"
#include "partita/config/parameters.hpp"

#include <algorithm>

namespace partita {
namespace {

const char* const introduction = R"(# Deck reference

Every section and key that a deck may hold. The page is generated from the program's own table of parameters, and a
test keeps it current. Decks are [TOML 1.0](https://toml.io/en/v1.0.0). All keys but `network/layers` have a default;
unknown keys, wrong types and values out of range are refused, with file, line and column.

On the command line, `section/key=value` (or `section.key=value`) replaces a value of the deck:
`partita train DECK run/seed=3 strategy/cuts=[2,4]`.

In ranges, `[` and `]` include the end, `(` and `)` do not.
)";

std::string cell(const std::string& text) {
  return text.empty() ? " |" : " " + text + " |";
}
std::string code(const std::string& text) {
  return "`" + text + "`";
}

std::string withoutQuotes(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '\''), text.end());
  return text;
}

std::string row(const Parameter& parameter) {
  const std::string allowed = parameter.allowed();
  return "|" + cell(code(parameter.key)) + cell(parameter.typeName()) + cell(code(tomlText(parameter))) +
         cell(allowed.empty() ? "" : code(withoutQuotes(allowed))) + cell(parameter.unit) +
         cell(parameter.text) + "\n";
}

std::string chapter(const std::string& title, const Section& section) {
  std::string text = "\n" + title + "\n\n" + section.text + "\n\n";
  text += "| key | type | default | allowed | unit | meaning |\n|---|---|---|---|---|---|\n";
  for (const Parameter& parameter : section.parameters) text += row(parameter);
  return text;
}

} // namespace

std::string deckReference() {
  RunConfig defaults;
  std::string page = introduction;
  for (const Section& section : describe(defaults).sections)
    page += chapter("## [" + section.name + "]", section);
  page += "\n## Layers\n\nEach entry of `network/layers` is a table with the key `type` and the keys of that "
          "type.\n";
  for (const LayerDescription& type : layerTypes()) {
    LayerSpec spec;
    page += chapter("### type = \"" + type.name + "\"", type.describe(spec));
  }
  return page;
}

} // namespace partita
