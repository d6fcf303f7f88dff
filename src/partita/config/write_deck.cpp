#include "partita/config/write_deck.hpp"

#include "partita/config/layer_types.hpp"
#include "partita/config/parameters.hpp"
#include "partita/config/text.hpp"

#include <algorithm>

namespace partita {

namespace {

std::string tomlText(const Parameter& parameter);
std::string layersText(const std::vector<LayerSpec>& layers, const std::string& indent);

std::string layerText(LayerSpec layer, const std::string& indent) {
  std::string text = "{ type = " + quoted(layer.type);
  for (const Parameter& parameter : describe(layer).parameters) {
    const auto* inside = std::get_if<std::vector<LayerSpec>*>(&parameter.target);
    if (inside != nullptr && (*inside)->empty()) continue;
    text += ", " + parameter.key + " = " +
            (inside == nullptr ? tomlText(parameter) : layersText(**inside, indent + "  "));
  }
  return text + " }";
}

std::string layersText(const std::vector<LayerSpec>& layers, const std::string& indent) {
  std::string text;
  for (const LayerSpec& layer : layers) text += "\n" + indent + layerText(layer, indent) + ",";
  return "[" + text + (text.empty() ? "]" : "\n" + indent.substr(2) + "]");
}

std::string listText(const std::vector<std::int64_t>& values) {
  return "[" + joined(values, ", ") + "]";
}

/// One overload per type of parameter, chosen by std::visit.
struct Writer {
  std::string operator()(const bool* field) const { return *field ? "true" : "false"; }
  std::string operator()(const std::int64_t* field) const { return std::to_string(*field); }
  std::string operator()(const double* field) const { return realText(*field); }
  std::string operator()(const std::string* field) const { return quoted(*field); }
  std::string operator()(const Choice& choice) const { return quoted(choice.names[choice.get()]); }

  std::string operator()(const Cuts& cuts) const {
    return *cuts.rule == CutRule::list ? listText(*cuts.list) : quoted(nameOf(*cuts.rule));
  }

  std::string operator()(const Axes& axes) const {
    if (axes.sizes->same) return quoted("same");
    const std::vector<std::int64_t>& values = axes.sizes->values;
    return values.size() == 1 ? std::to_string(values[0]) : listText(values);
  }

  std::string operator()(const std::vector<std::int64_t>* list) const { return listText(*list); }
  std::string operator()(const std::vector<LayerSpec>* layers) const { return layersText(*layers, "  "); }
};

/// The current value of a parameter's field as TOML.
std::string tomlText(const Parameter& parameter) {
  if (parameter.empty() && !parameter.empty_word.empty()) return quoted(parameter.empty_word);
  return std::visit(Writer{}, parameter.target);
}

} // namespace

std::string writeDeck(const RunConfig& config) {
  RunConfig copy = config;
  std::string deck = effective_deck_mark;
  for (const Section& section : describe(copy).sections) {
    deck += "\n[" + section.name + "]\n";
    for (const Parameter& parameter : section.parameters) {
      const std::string unit = parameter.unit.empty() ? "" : "[" + parameter.unit + "] ";
      deck += parameter.key + " = " + tomlText(parameter) + " # " + unit + parameter.text + "\n";
    }
  }
  return deck;
}

std::vector<std::string> deckChanges(const RunConfig& before, const RunConfig& now) {
  RunConfig old_copy = before, new_copy = now;
  const ParameterTable old_table = describe(old_copy), new_table = describe(new_copy);
  std::vector<std::string> changes;
  for (const Section& section : new_table.sections) {
    for (const Parameter& parameter : section.parameters) {
      const std::string was = tomlText(*old_table.find(section.name)->find(parameter.key)),
                        is = tomlText(parameter);
      const bool brief = was.size() + is.size() < 80;
      if (was != is)
        changes.push_back(section.name + "/" + parameter.key +
                          (brief ? ": " + was + " -> " + is : " has a different value"));
    }
  }
  return changes;
}

namespace {

const char* const introduction = R"(# Deck reference

Every section and key that a deck may hold. The page is generated from the program's own table of parameters, and a
test keeps it current. Decks are [TOML 1.0](https://toml.io/en/v1.0.0). Keys that are required have no default. Unknown
keys, wrong types and values out of range are refused, with file, line and column.

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

/// What a deck must give has no default; its meaning says so.
std::string defaultOf(const Parameter& parameter) {
  static const std::string required = "; required";
  const std::string& text = parameter.text;
  const bool given = text.size() > required.size() && text.substr(text.size() - required.size()) == required;
  return given ? "" : code(tomlText(parameter));
}

std::string row(const Parameter& parameter) {
  const std::string allowed = parameter.allowed();
  return "|" + cell(code(parameter.key)) + cell(parameter.typeName()) + cell(defaultOf(parameter)) +
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
  for (const std::string& type : layerTypes().names()) {
    LayerSpec spec;
    spec.type = type;
    page += chapter("### type = \"" + type + "\"", describe(spec));
  }
  return page;
}

} // namespace partita
