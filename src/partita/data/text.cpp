#include "partita/data/text.hpp"

#include "partita/config/user_error.hpp"
#include "partita/data/byte_pairs.hpp"
#include "partita/data/gzip_file.hpp"

namespace partita {

namespace {

/// As bytes where they go into them: a quarter of the memory.
Samples samplesOf(const std::vector<std::int32_t>& tokens, std::int64_t vocabulary, std::size_t width,
                  std::size_t count) {
  const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(count * width);
  if (vocabulary <= 256) return Samples(width, std::vector<std::uint8_t>(tokens.begin(), end));
  return Samples(width, std::vector<float>(tokens.begin(), end));
}

} // namespace

LoadedSet windowsOf(const std::vector<std::int32_t>& tokens, std::int64_t vocabulary, std::int64_t sequence,
                    std::int64_t limit, const std::string& source, Need need) {
  const auto width = static_cast<std::size_t>(sequence);
  if (tokens.size() < width + 1) {
    throw UserError(source + ": " + std::to_string(tokens.size()) +
                    " tokens are too few; a sample of data/sequence = " + std::to_string(sequence) +
                    " takes one more");
  }
  const std::size_t count = keptRows((tokens.size() - 1) / width, limit);
  LoadedSet set;
  set.labels.assign(tokens.begin() + 1, tokens.begin() + 1 + static_cast<std::ptrdiff_t>(count * width));
  set.labels_a_sample = width;
  set.shape = {sequence};
  set.features_source = set.labels_source = source;
  if (need == Need::everything) set.features = samplesOf(tokens, vocabulary, width, count);
  return set;
}

LoadedSets readText(const DataSection& section, Need need) {
  BytePairs pairs;
  if (!section.vocabulary.empty()) {
    GzipFile file(dataPath(section, section.vocabulary));
    pairs = BytePairs(file.readAll(), file.name());
  }
  LoadedSets sets;
  sets.vocabulary = pairs.vocabulary();
  const auto read = [&](const std::string& name, std::int64_t limit) {
    GzipFile file(dataPath(section, name));
    return windowsOf(pairs.encode(file.readAll()), sets.vocabulary, section.sequence, limit, file.name(),
                     need);
  };
  sets.train = read(section.train_file, section.samples);
  if (!section.test_file.empty()) sets.test = read(section.test_file, section.test_samples);
  return sets;
}

} // namespace partita
