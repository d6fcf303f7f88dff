#pragma once

#include "partita/data/dataset.hpp"

namespace partita {

constexpr std::int64_t noise_training_samples = 1024, noise_test_samples = 256, noise_classes = 10;

/// Random images {channels, image_size, image_size} with random labels: there is nothing to learn, but a
/// network for large images can be planned and timed without a data set. Depends only on (seed, index).
LoadedSets makeNoiseImages(const DataSection& section, std::uint64_t seed, Need need);

} // namespace partita
