#include "partita/data/loaded_sets.hpp"

#include <filesystem>

namespace partita {

std::string dataPath(const DataSection& section, const std::string& file) {
  return (std::filesystem::path(section.path) / file).string();
}

} // namespace partita
