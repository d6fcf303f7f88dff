// Reads decks and overrides: every line that begins with "#!" is also an override, so that an input is a
// single text.
#include "partita/config/deck.hpp"

#include "partita/config/write_deck.hpp"

#include <sstream>

#include "fuzz.hpp"

using namespace partita;

namespace {

std::vector<std::string> overridesIn(const std::string& text) {
  std::vector<std::string> overrides;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.compare(0, 2, "#!") == 0) overrides.push_back(line.substr(2));
  return overrides;
}

/// Checks that the effective deck says the same as the deck it comes from.
void checkRoundTrip(const RunConfig& config) {
  const std::string written = writeDeck(config);
  RunConfig again;
  fuzz::require(fuzz::accepted([&] { again = parseDeck(written, "effective"); }), "refused:\n" + written);
  fuzz::require(writeDeck(again) == written, "changed on reading:\n" + written);
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  RunConfig config;
  if (fuzz::accepted([&] { config = parseDeck(text, "deck", overridesIn(text)); })) checkRoundTrip(config);
  return 0;
}
