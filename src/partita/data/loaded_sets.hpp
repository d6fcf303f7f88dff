#pragma once

#include "partita/data/dataset.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

/// What the reader of one format hands to `loadData`. The whole of a file is checked whatever limit the deck
/// sets: `labels` are those of all samples, `features` those of the first ones (none where only labels are
/// needed).
struct LoadedSet {
  Samples features;
  std::vector<std::int32_t> labels;
  std::size_t labels_a_sample = 1;
  std::vector<std::int64_t> shape;            ///< of one sample
  std::string features_source, labels_source; ///< what messages name: files
};

struct LoadedSets {
  LoadedSet train, test;
  std::vector<std::int64_t> label_values; ///< see DataSets
  std::int64_t vocabulary =
      0; ///< samples are tokens 0 .. vocabulary-1 and labels the next ones; 0: no tokens
};

/// Rows to keep of a file with `rows` samples under a limit of the deck, where 0 means all.
inline std::size_t keptRows(std::size_t rows, std::int64_t limit) {
  return limit == 0 || static_cast<std::size_t>(limit) > rows ? rows : static_cast<std::size_t>(limit);
}

/// Throws UserError where the machine has no room for `samples` samples that a generator is asked for, each
/// of `bytes_per_sample`; `origin` names the generator.
void requireRoomForSamples(std::int64_t samples, double bytes_per_sample, const std::string& origin);

/// `file` inside the folder `data/path`; an absolute `file` stays as it is.
std::string dataPath(const DataSection& section, const std::string& file);

} // namespace partita
