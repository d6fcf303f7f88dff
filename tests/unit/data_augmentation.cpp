#include "partita/config/user_error.hpp"
#include "partita/data/augmentation.hpp"
#include "partita/data/order.hpp"

#include <functional>
#include <map>
#include <numeric>

#include "data_files.hpp"
#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/images.hpp"

namespace partita::test::data_augmentation {

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t channels = 2, rows = 3, columns = 4, width = channels * rows * columns;
constexpr std::uint64_t seed = 7;

DataSection sectionOf(std::int64_t crop, bool flip) {
  DataSection section;
  section.crop = crop;
  section.flip = flip;
  return section;
}

/// `samples` images of bytes; the first one counts from 1 to 24.
DataSets images(std::size_t samples) {
  DataSets sets;
  std::vector<std::uint8_t> bytes(samples * width);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(1 + i % 251);
  sets.train.features = Samples(width, std::move(bytes));
  sets.train.labels = std::vector<std::int32_t>(samples, 0);
  sets.shape = {channels, rows, columns};
  sets.classes = 1;
  sets.shift = {0.0F};
  sets.scale = {1.0F};
  return sets;
}

Values copied(const RowSource& source, std::size_t row, std::uint32_t epoch) {
  std::vector<Real> out(width, Real(-99));
  source.copyRow(row, epoch, out.data());
  return asInShape({out.begin(), out.end()}, {channels, rows, columns});
}

/// The first epoch in which row 0 changes in this way.
std::uint32_t epochOf(const TrainingRows& source, const ImageChange& wanted) {
  for (std::uint32_t epoch = 0; epoch < 10000; ++epoch) {
    const ImageChange change = source.changeOf(0, epoch);
    if (change.down == wanted.down && change.right == wanted.right && change.mirrored == wanted.mirrored)
      return epoch;
  }
  FAIL("no epoch has this change");
  return 0;
}

Values changed(const TrainingRows& source, const ImageChange& change) {
  return copied(source, 0, epochOf(source, change));
}

/// The pixels of a row as the definition has them.
Values expected(const DataSets& sets, std::size_t row, const ImageChange& change) {
  const Values plain = copied(FeatureRows(sets, sets.train), row, 0);
  Values out;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t y = r + change.down, x = (change.mirrored ? columns - 1 - c : c) + change.right;
        const bool inside = y >= 0 && y < rows && x >= 0 && x < columns;
        out.push_back(inside ? plain[static_cast<std::size_t>((channel * rows + y) * columns + x)] : 0.0);
      }
    }
  }
  return out;
}

std::string complaint(std::int64_t crop, bool flip, const std::vector<std::int64_t>& shape) {
  return messageOf([&] { checkAugmentation(sectionOf(crop, flip), shape); });
}

/// All features that a replica's readers return over three epochs.
Values everything(const DataSets& sets, int replica, int replicas, std::int64_t depth,
                  std::int64_t first = 0) {
  constexpr std::int64_t batch = 10, count = 12;
  const TrainingRows source(sets, sectionOf(1, true), seed);
  BatchReader reader(
      &source, sets.train,
      trainingOrder(static_cast<std::int64_t>(sets.train.size()), seed, batch, replica, replicas, first),
      count - first, batch, depth);
  Values all;
  for (std::int64_t i = first; i < count; ++i) {
    const Values features = valuesOf(reader.next(space).features);
    all.insert(all.end(), features.begin(), features.end());
  }
  return all;
}

} // namespace

TEST_CASE("A crop shifts an image and fills with zeros, then a flip mirrors its columns", "[data]") {
  const DataSets sets = images(1);
  const TrainingRows source(sets, sectionOf(2, true), seed);
  CHECK(changed(source, {0, 0, false}) ==
        Values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24});
  CHECK(changed(source, {0, 0, true}) ==
        Values{4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9, 16, 15, 14, 13, 20, 19, 18, 17, 24, 23, 22, 21});
  CHECK(changed(source, {1, 0, false}) ==
        Values{5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, 0, 17, 18, 19, 20, 21, 22, 23, 24, 0, 0, 0, 0});
  CHECK(changed(source, {-2, 0, false}) ==
        Values{0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 13, 14, 15, 16});
  CHECK(changed(source, {0, 1, false}) ==
        Values{2, 3, 4, 0, 6, 7, 8, 0, 10, 11, 12, 0, 14, 15, 16, 0, 18, 19, 20, 0, 22, 23, 24, 0});
  CHECK(changed(source, {-1, -2, true}) ==
        Values{0, 0, 0, 0, 2, 1, 0, 0, 6, 5, 0, 0, 0, 0, 0, 0, 14, 13, 0, 0, 18, 17, 0, 0});
}

TEST_CASE("Every change is the one of the definition, with every standardisation", "[data]") {
  DataSets sets = images(60);
  for (const bool of_floats : {false, true}) {
    if (of_floats) {
      std::vector<float> values(60 * width);
      std::iota(values.begin(), values.end(), -100.0F);
      sets.train.features = Samples(width, std::move(values));
    }
    for (const bool per_feature : {false, true}) {
      sets.shift = {100.0F};
      sets.scale = {0.5F};
      for (std::size_t j = 1; per_feature && j < width; ++j) {
        sets.shift.push_back(static_cast<float>(j));
        sets.scale.push_back(1.0F / static_cast<float>(j));
      }
      for (const std::int64_t crop : {0, 1, 2}) {
        const TrainingRows source(sets, sectionOf(crop, true), seed);
        for (std::size_t row = 0; row < 60; ++row) {
          const ImageChange change = source.changeOf(row, 5);
          CHECK(copied(source, row, 5) == expected(sets, row, change));
        }
      }
    }
  }
}

TEST_CASE("Offsets and mirrors are equally likely, and independent of each other", "[data]") {
  const DataSets sets = images(1);
  const TrainingRows source(sets, sectionOf(2, true), seed);
  constexpr std::size_t drawn = 25000, kinds = 2 * 5 * 5;
  std::map<std::vector<std::int64_t>, std::size_t> counts;
  for (std::size_t row = 0; row < drawn; ++row) {
    const ImageChange change = source.changeOf(row / 5, static_cast<std::uint32_t>(row % 5));
    ++counts[{change.down, change.right, change.mirrored ? 1 : 0}];
  }
  CHECK(counts.size() == kinds);
  double chi_squared = 0.0;
  const double mean = static_cast<double>(drawn) / kinds;
  for (const auto& [change, count] : counts) {
    CHECK(std::abs(change[0]) <= 2);
    CHECK(std::abs(change[1]) <= 2);
    const double difference = static_cast<double>(count) - mean;
    chi_squared += difference * difference / mean;
  }
  CHECK(chi_squared < 85.4); // 49 degrees of freedom: exceeded by chance in one of 1000 draws
}

TEST_CASE("A change depends on seed, epoch and row, and each key works alone", "[data]") {
  const DataSets sets = images(50);
  const TrainingRows both(sets, sectionOf(2, true), seed), other_seed(sets, sectionOf(2, true), seed + 1),
      crop(sets, sectionOf(2, false), seed), flip(sets, sectionOf(0, true), seed),
      none(sets, sectionOf(0, false), seed);
  const auto differs = [&](const TrainingRows& a, std::uint32_t epoch) {
    std::size_t count = 0;
    for (std::size_t row = 0; row < 50; ++row) count += copied(a, row, epoch) != copied(both, row, 0) ? 1 : 0;
    return count;
  };
  CHECK(differs(both, 0) == 0);
  CHECK(differs(both, 1) > 40);
  CHECK(differs(other_seed, 0) > 40);
  for (std::size_t row = 0; row < 50; ++row) {
    CHECK_FALSE(crop.changeOf(row, 3).mirrored);
    CHECK(crop.changeOf(row, 3).down == both.changeOf(row, 3).down);
    CHECK(flip.changeOf(row, 3).right == 0);
    CHECK(flip.changeOf(row, 3).mirrored == both.changeOf(row, 3).mirrored);
    CHECK(copied(none, row, 3) == copied(FeatureRows(sets, sets.train), row, 3));
  }
}

TEST_CASE("Batches are augmented the same way on any replicas, however far ahead, from any step", "[data]") {
  const DataSets sets = images(43);
  const Values whole = everything(sets, 0, 1, 0);
  CHECK(everything(sets, 0, 1, 3) == whole);
  CHECK(everything(sets, 0, 1, 2, 5) == Values(whole.begin() + 5 * 10 * width, whole.end()));
  const Values first = everything(sets, 0, 2, 0), second = everything(sets, 1, 2, 2);
  Values joined;
  constexpr std::ptrdiff_t share = 5 * width;
  for (std::ptrdiff_t batch = 0; batch < 12; ++batch) {
    for (const Values* part : {&first, &second})
      joined.insert(joined.end(), part->begin() + batch * share, part->begin() + (batch + 1) * share);
  }
  CHECK(joined == whole);
}

TEST_CASE("Images that are augmented do not travel as bytes", "[data]") {
  const DataSets sets = images(2);
  CHECK(TrainingRows(sets, sectionOf(0, false), seed).byteMap() != nullptr);
  CHECK(TrainingRows(sets, sectionOf(1, false), seed).byteMap() == nullptr);
  CHECK(TrainingRows(sets, sectionOf(0, true), seed).byteMap() == nullptr);
}

TEST_CASE("Only images can be augmented, and a crop keeps some of each", "[data]") {
  CHECK(complaint(0, false, {122}).empty());
  CHECK(complaint(27, true, {3, 28, 40}).empty());
  CHECK(complaint(28, true, {3, 28, 40}) ==
        "data/crop: 28 is too large for images of 28 x 40 pixels (allowed 0 to 27)");
  CHECK(complaint(40, false, {1, 50, 40}) ==
        "data/crop: 40 is too large for images of 50 x 40 pixels (allowed 0 to 39)");
  const std::string needs = ": needs images of channels x rows x columns, but samples have the shape ";
  CHECK(complaint(1, true, {122}) == "data/crop" + needs + "122");
  CHECK(complaint(0, true, {2, 3, 4, 5}) == "data/flip" + needs + "2 x 3 x 4 x 5");
}

} // namespace partita::test::data_augmentation
