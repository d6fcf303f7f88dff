#include "partita/config/deck.hpp"
#include "partita/config/parameter_text.hpp"
#include "partita/config/parameters.hpp"

namespace partita {

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
                          (brief ? ": " + was + " -> " + is : " is another"));
    }
  }
  return changes;
}

} // namespace partita
