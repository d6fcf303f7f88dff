#include "partita/data/load_data.hpp"

#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/data/built_in_images.hpp"
#include "partita/data/grammar.hpp"
#include "partita/data/gzip_file.hpp"
#include "partita/data/hdf5_data.hpp"
#include "partita/data/hdf5_storage.hpp"
#include "partita/data/idx.hpp"
#include "partita/data/libsvm.hpp"
#include "partita/data/order.hpp"
#include "partita/data/standardisation.hpp"
#include "partita/data/text.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace partita {

namespace {

/// An evaluation reads the test set alone, if that has a file of its own.
const LoadedSet& usedSet(const LoadedSets& loaded) {
  return loaded.train.labels.empty() ? loaded.test : loaded.train;
}

LoadedSets readSets(const DataSection& section, std::uint64_t seed, Need need, const TrainedInput* trained) {
  const bool evaluates = trained != nullptr;
  switch (section.kind) {
  case DataKind::idx:
    return readIdx(section, need, evaluates);
  case DataKind::libsvm:
    return readLibsvm(section, need, trained);
  case DataKind::hdf5:
    return readHdf5(section, need, trained);
  case DataKind::text:
    return readText(section, need, evaluates);
  case DataKind::grammar:
    return makeGrammarText(section, seed, need);
  case DataKind::noise:
    return makeNoiseImages(section, seed, need);
  case DataKind::glyphs:
    break;
  }
  return makeGlyphs(section, seed, need);
}

/// The number in the deck, the vocabulary size, or the largest label of the training set + 1.
std::int64_t classCount(const DataSection& section, const LoadedSet& train, std::int64_t vocabulary) {
  if (section.classes != 0 && section.classes < vocabulary)
    throw UserError("data/classes: " + std::to_string(section.classes) + " is less than the " +
                    std::to_string(vocabulary) + " tokens of the vocabulary");
  if (section.classes != 0) return section.classes;
  if (vocabulary > 0) return vocabulary;
  if (section.kind == DataKind::glyphs) return glyph_classes;
  if (section.kind == DataKind::noise) return noise_classes;
  const auto largest = std::max_element(train.labels.begin(), train.labels.end());
  const std::int64_t classes = std::int64_t{*largest} + 1;
  if (classes > most_classes)
    throw UserError(train.labels_source + ": label " + std::to_string(*largest) + " of sample " +
                    std::to_string(largest - train.labels.begin()) + " requires more than " +
                    std::to_string(most_classes) + " classes");
  return classes;
}

void checkLabels(const LoadedSet& set, std::int64_t classes, const char* origin) {
  for (std::size_t i = 0; i < set.labels.size(); ++i)
    if (set.labels[i] < 0 || set.labels[i] >= classes)
      throw UserError(set.labels_source + ": label " + std::to_string(set.labels[i]) + " of sample " +
                      std::to_string(i) + " is outside 0.." + std::to_string(classes - 1) + " (" + origin +
                      ")");
}

/// Truncates the labels to the samples in use.
Dataset limited(LoadedSet& set, std::int64_t limit) {
  set.labels.resize(keptRows(set.labels.size() / set.labels_per_sample, limit) * set.labels_per_sample);
  return {std::move(set.features), std::move(set.labels), set.labels_per_sample};
}

/// Moves a `fraction` of `all` samples, drawn by the seed, from the training set to a new set; both keep the
/// file's order. `key` is the parameter that requests it, and `draw` distinguishes the draws.
Dataset splitOff(Dataset& train, double fraction, std::size_t all, const std::string& key, std::uint64_t seed,
                 std::uint32_t draw) {
  if (fraction == 0.0) return {};
  const std::size_t samples = train.size();
  // The product of a decimal fraction may come out a little below a whole number: 0.29 x 100 is 28.999....
  const double product =
      fraction * static_cast<double>(all) * (1.0 + 4.0 * std::numeric_limits<double>::epsilon());
  const auto held_out = std::max<std::size_t>(1, static_cast<std::size_t>(product));
  if (held_out >= samples)
    throw UserError(key + ": of " + counted(static_cast<std::int64_t>(samples), "sample") +
                    ", none is left for training");
  const std::vector<std::uint32_t> order = permutation(samples, RandomStream(seed, Stream::split, draw));
  std::vector<std::size_t> rows(order.begin(), order.end());
  const auto middle = rows.begin() + held_out;
  std::sort(rows.begin(), middle);
  std::sort(middle, rows.end());
  Dataset apart = train.select({rows.begin(), middle});
  train = train.select({middle, rows.end()});
  return apart;
}

/// Orders of samples have numbers of 32 bits.
void checkCount(const Dataset& set, const std::string& source) {
  if (set.size() > std::numeric_limits<std::uint32_t>::max())
    throw UserError(source + ": has 2^32 samples or more; divide it into several files");
}

/// The first samples of a set.
Dataset firstSamples(Dataset set, std::int64_t limit) {
  const std::size_t kept = keptRows(set.size(), limit);
  if (kept == set.size()) return set;
  std::vector<std::size_t> rows(kept);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  return set.select(rows);
}

/// Splits off the validation set, and a test set if no file provides one.
void divide(DataSets& sets, const DataSection& section, std::uint64_t seed) {
  const std::size_t all = sets.train.size();
  if (all == 0) return;
  if (sets.test.size() == 0)
    sets.test = firstSamples(splitOff(sets.train, section.test_fraction, all, "data/test_fraction", seed, 1),
                             section.test_samples);
  sets.validation = splitOff(sets.train, section.validation, all, "data/validation", seed, 0);
  if (sets.test.size() == 0) sets.test = firstSamples(sets.validation, section.test_samples);
}

/// The shape of an image is read as channels x rows x columns.
void warnOfChannelsThatComeLast(const Shape& shape, const std::string& source) {
  if (shape.size() != 3 || shape[2] == 2 || shape[2] > 4 || shape[0] <= 4) return;
  Log::warnOnce(source + ": samples of " + joined(shape, " x ") + " values are taken for " +
                counted(shape[0], "channel") + " of " + std::to_string(shape[1]) + " x " +
                std::to_string(shape[2]) + " pixels; if the channels come last, move them to the front");
}

/// The network would have outputs that nothing trains. All samples of the file count, whatever the limits.
void warnOfEmptyClasses(const LoadedSet& train, std::int64_t classes) {
  constexpr std::size_t most_named = 5;
  std::vector<bool> has_samples(static_cast<std::size_t>(classes), false);
  for (const std::int32_t label : train.labels) has_samples[static_cast<std::size_t>(label)] = true;
  const std::int64_t empty = std::count(has_samples.begin(), has_samples.end(), false);
  if (empty == 0) return;
  if (empty == 1 && !has_samples[0]) {
    Log::warnOnce(train.labels_source + ": class 0 has no training sample; do the labels start at 1?");
    return;
  }
  std::vector<std::int64_t> named;
  for (std::size_t c = 0; c < has_samples.size() && named.size() < most_named; ++c)
    if (!has_samples[c]) named.push_back(static_cast<std::int64_t>(c));
  const bool all = static_cast<std::size_t>(empty) == named.size();
  Log::warnOnce(train.labels_source + ": no training sample is of " + std::to_string(empty) + " of the " +
                std::to_string(classes) + " classes: " + joined(named, ", ") + (all ? "" : ", ..."));
}

/// What is accepted but often a mistake. Labels are read before the network is planned, so the warnings
/// precede the errors that follow from the same mistake. A deck that sets `data/classes` means this number.
void warnOfOddities(const DataSection& section, const LoadedSets& loaded, const DataSets& sets,
                    bool trained) {
  if (section.kind != DataKind::hdf5 && section.kind != DataKind::idx) return;
  warnOfChannelsThatComeLast(sets.shape, usedSet(loaded).features_source);
  if (!trained && section.classes == 0) warnOfEmptyClasses(loaded.train, sets.classes);
}

/// Vectors may stand for images with as many values.
void checkShape(const Shape& shape, const TrainedInput& trained, const std::string& source) {
  if (static_cast<std::size_t>(valuesOf(shape)) != trained.width())
    failWidth(source, static_cast<std::size_t>(valuesOf(shape)), trained);
  if (shape.size() > 1 && trained.shape.size() > 1 && shape != trained.shape)
    throw UserError(source + ": samples have the shape " + joined(shape, " x ") +
                    ", but the network was trained on " + joined(trained.shape, " x "));
}

/// Labels of files and tokens have the meaning that they had in the training.
void asTrained(LoadedSets& loaded, const DataSection& section, const TrainedInput& trained) {
  if (loaded.vocabulary > 0) {
    if (section.classes == 0 && loaded.vocabulary != trained.classes)
      throw UserError(usedSet(loaded).labels_source + ": the vocabulary has " +
                      std::to_string(loaded.vocabulary) + " tokens, but the network was trained on " +
                      std::to_string(trained.classes));
    return;
  }
  if (section.isGenerated() || trained.label_values.empty() || !loaded.label_values.empty()) return;
  for (LoadedSet* const set : {&loaded.train, &loaded.test})
    if (set->labelled) set->labels = rankLabels(set->labels, set->labels_source, trained.label_values);
  loaded.label_values = trained.label_values;
}

/// Throws UserError if the sets do not fit together, or if their labels are no classes.
void checkSets(const LoadedSets& loaded, const DataSection& section, std::int64_t classes, bool trained) {
  const LoadedSet &train = loaded.train, &test = loaded.test;
  if (!train.labels.empty() && !test.labels.empty() && train.shape != test.shape)
    throw UserError(test.features_source + ": samples have the shape " + joined(test.shape, " x ") +
                    ", but those of the training set have " + joined(train.shape, " x "));
  const char* origin = section.classes != 0 ? "data/classes"
                       : trained            ? "the classes of the trained network"
                                            : "the labels of the training set";
  checkLabels(train, classes, origin);
  checkLabels(test, classes, origin);
}

/// Takes the samples in use.
void takeSamples(LoadedSets& loaded, const DataSection& section, std::uint64_t seed, DataSets& sets) {
  sets.train = limited(loaded.train, section.samples);
  sets.test = limited(loaded.test, section.test_samples);
  sets.test_labelled = loaded.test.labelled;
  checkCount(sets.train, loaded.train.labels_source);
  checkCount(sets.test, loaded.test.labels_source);
  divide(sets, section, seed);
}

} // namespace

DataSets loadData(const DataSection& section, std::uint64_t seed, Need need, const TrainedInput* trained) {
  LoadedSets loaded = readSets(section, seed, need, trained);
  if (trained != nullptr) asTrained(loaded, section, *trained);
  DataSets sets;
  sets.shape = usedSet(loaded).shape;
  sets.classes = trained != nullptr && section.classes == 0
                     ? trained->classes
                     : classCount(section, loaded.train, loaded.vocabulary);
  sets.label_values = std::move(loaded.label_values);
  checkSets(loaded, section, sets.classes, trained != nullptr);
  warnOfOddities(section, loaded, sets, trained != nullptr);
  const std::string source = usedSet(loaded).features_source;
  takeSamples(loaded, section, seed, sets);
  if (trained != nullptr) {
    sets.shift = trained->shift;
    sets.scale = trained->scale;
    checkShape(sets.shape, *trained, source);
  } else if (need == Need::everything) {
    const bool tokens = loaded.vocabulary > 0;
    const bool table = sets.shape.size() == 1 && !tokens;
    AffineMap map = standardisation(sets.train.features, tokens ? Standardise::none : section.standardise,
                                    table ? source : "");
    sets.shift = std::move(map.shift);
    sets.scale = std::move(map.scale);
  }
  return sets;
}

namespace {

/// The names under which a file of the deck may be there; none if the deck does not name it.
std::vector<std::string> namesOf(const DataSection& section, const std::string& name) {
  if (name.empty()) return {};
  const std::string path = dataPath(section, name);
  return {path, twinOf(path)};
}

} // namespace

std::vector<std::string> dataFiles(const DataSection& section) {
  std::vector<std::string> files;
  for (const std::string* name :
       {&section.train_images, &section.train_labels, &section.test_images, &section.test_labels,
        &section.train_file, &section.test_file, &section.vocabulary}) {
    for (std::string& path : namesOf(section, *name)) files.push_back(path);
  }
  if (section.kind != DataKind::hdf5) return files;
  for (const std::string* name : {&section.train_file, &section.test_file})
    for (const std::string* dataset : {&section.features, &section.labels})
      for (const std::string& path : namesOf(section, *name))
        for (std::string& file : filesBehind(path, *dataset)) files.push_back(file);
  return files;
}

} // namespace partita
