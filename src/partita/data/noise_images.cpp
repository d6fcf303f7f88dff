#include "partita/data/noise_images.hpp"

#include "partita/core/random.hpp"

#include <cstring>

namespace partita {

namespace {

enum class Part : std::uint32_t { labels, train, test };

LoadedSet makeSet(const DataSection& section, std::uint64_t seed, Part part, std::int64_t samples,
                  Need need) {
  LoadedSet set;
  set.features_source = set.labels_source = "data/kind noise";
  set.shape = {section.channels, section.image_size, section.image_size};
  const RandomStream labels(seed, Stream::noise_images, static_cast<std::uint32_t>(Part::labels)),
      pixels(seed, Stream::noise_images, static_cast<std::uint32_t>(part));
  const auto classes = static_cast<std::uint32_t>(section.classes == 0 ? noise_classes : section.classes);
  const std::uint64_t count = static_cast<std::uint64_t>(samples), first = part == Part::test ? ~0U : 0U;
  const double image = static_cast<double>(section.channels * section.image_size * section.image_size);
  requireRoomForSamples(samples, (need == Need::everything ? image : 0.0) + sizeof(std::int32_t),
                        set.labels_source);
  set.labels.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i)
    set.labels.push_back(static_cast<std::int32_t>(labels.below(first + i, classes)));
  if (need == Need::labels_only) return set;
  const auto width = static_cast<std::size_t>(section.channels * section.image_size * section.image_size);
  std::vector<std::uint8_t> bytes((width * count + 15) / 16 * 16);
  for (std::size_t i = 0; i < bytes.size(); i += 16) {
    const Random4 random = pixels.block(i / 16);
    std::memcpy(&bytes[i], random.word, 16);
  }
  bytes.resize(width * count);
  set.features = Samples(width, std::move(bytes));
  return set;
}

} // namespace

LoadedSets makeNoiseImages(const DataSection& section, std::uint64_t seed, Need need) {
  LoadedSets sets;
  sets.train = makeSet(section, seed, Part::train,
                       section.samples == 0 ? noise_training_samples : section.samples, need);
  sets.test = makeSet(section, seed, Part::test,
                      section.test_samples == 0 ? noise_test_samples : section.test_samples, need);
  return sets;
}

} // namespace partita
