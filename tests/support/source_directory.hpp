#pragma once

#include <cstdlib>
#include <string>

namespace partita::test {

/// The sources with the decks and references that tests read: those of the build, or a copy that the variable
/// PARTITA_SOURCE_DIR names, where the tests run on another machine.
inline std::string sourceDirectory() {
  const char* const named = std::getenv("PARTITA_SOURCE_DIR");
  return named != nullptr ? named : PARTITA_SOURCE_DIR;
}

} // namespace partita::test
