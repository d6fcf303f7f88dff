#include "partita/data/loaded_sets.hpp"

#include "partita/core/available_memory.hpp"

#include <filesystem>

namespace partita {

void requireRoomForSamples(std::int64_t samples, double bytes_per_sample, const std::string& origin) {
  requireMemory(static_cast<double>(samples) * bytes_per_sample,
                origin + ": " + std::to_string(samples) + " samples (data/samples, data/test_samples)");
}

std::string dataPath(const DataSection& section, const std::string& file) {
  return (std::filesystem::path(section.path) / file).string();
}

} // namespace partita
