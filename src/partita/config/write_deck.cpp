#include "partita/config/deck.hpp"
#include "partita/config/parameter_text.hpp"
#include "partita/config/parameters.hpp"

namespace partita {

std::string writeDeck(const RunConfig& config) {
  RunConfig copy = config;
  std::string deck = "# The effective deck: every key with the value that was used.\n";
  for (const Section& section : describe(copy).sections) {
    deck += "\n[" + section.name + "]\n";
    for (const Parameter& parameter : section.parameters) {
      const std::string unit = parameter.unit.empty() ? "" : "[" + parameter.unit + "] ";
      deck += parameter.key + " = " + tomlText(parameter) + " # " + unit + parameter.text + "\n";
    }
  }
  return deck;
}

} // namespace partita
