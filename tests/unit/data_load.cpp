#include "partita/config/text.hpp"
#include "partita/core/log.hpp"
#include "partita/data/dataset.hpp"
#include "partita/data/load_data.hpp"
#include "partita/data/standardisation.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::data_load {

using Catch::Matchers::ContainsSubstring;

namespace {

/// 10 training images of 1 x 2 pixels with values 0 .. 19, and 4 test images.
DataSection idxSection(const ScratchFolder& folder) {
  DataSection section;
  section.kind = DataKind::idx;
  section.path = folder.path();
  section.train_images = "images";
  section.train_labels = "labels";
  section.test_images = "test-images";
  section.test_labels = "test-labels";
  folder.write("images", idxFile({10, 1, 2}, 20));
  folder.write("labels", idxLabels({0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  folder.write("test-images", idxFile({4, 1, 2}, 8));
  folder.write("test-labels", idxLabels({4, 3, 2, 1}));
  return section;
}

std::vector<float> standardisedRow(const DataSets& sets, const Samples& samples, std::size_t row) {
  std::vector<float> out(samples.width());
  samples.copyRow(row, sets.shift, sets.scale, out.data());
  return out;
}

std::string messageFor(const DataSection& section, Need need = Need::everything) {
  return messageOf([&] { loadData(section, 1, need); });
}

} // namespace

TEST_CASE("The files of a deck include those that it finds with or without .gz", "[data]") {
  const ScratchFolder folder;
  DataSection section = idxSection(folder);
  std::filesystem::remove(folder.path("labels"));
  folder.writeGzip("labels.gz", idxLabels({0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  section.train_images = "images.gz"; // the file is called "images"
  CHECK(messageFor(section).empty());
  const std::vector<std::string> files = dataFiles(section);
  for (const char* name : {"images", "labels.gz", "test-images", "test-labels"})
    CHECK(std::count(files.begin(), files.end(), folder.path(name)) == 1);
}

TEST_CASE("An IDX deck loads with classes, shape and standardisation", "[data]") {
  const ScratchFolder folder;
  const DataSets sets = loadData(idxSection(folder), 1, Need::everything);
  CHECK(sets.classes == 5);
  CHECK(sets.shape == std::vector<std::int64_t>{1, 1, 2});
  CHECK(sets.width() == 2);
  CHECK(sets.train.size() == 10);
  CHECK(sets.test.size() == 4);
  CHECK(sets.validation.size() == 0);
  REQUIRE(sets.shift.size() == 1);
  CHECK(sets.shift[0] == Approx(9.5));
  CHECK(sets.scale[0] == Approx(1.0 / std::sqrt((20.0 * 20.0 - 1.0) / 12.0)));
  CHECK(standardisedRow(sets, sets.test.features, 1)[1] == Approx((3.0 - 9.5) / std::sqrt(33.25)));
  double in_double[2];
  sets.test.features.copyRow(1, sets.shift, sets.scale, in_double);
  CHECK(in_double[1] == Approx((3.0 - 9.5) / std::sqrt(33.25)));
}

TEST_CASE("Standardisation per feature leaves constants finite", "[data]") {
  const ScratchFolder folder;
  DataSection section;
  section.kind = DataKind::libsvm;
  section.path = folder.path();
  section.train_file = "train";
  section.test_file = "test";
  section.standardise = Standardise::feature;
  folder.write("train", "0 1:0.1 2:1000001\n1 1:0.1 2:1000003\n1 1:0.1 2:1000005\n");
  folder.write("test", "0 1:0.1 2:1000003\n");
  const DataSets sets = loadData(section, 1, Need::everything);
  CHECK(sets.shift == std::vector<float>{0.1F, 1000003.0F});
  CHECK(sets.scale[0] == 1.0F);
  CHECK(sets.scale[1] == Approx(1.0 / std::sqrt(8.0 / 3.0)));
  CHECK(standardisedRow(sets, sets.test.features, 0) == std::vector<float>{0.0F, 0.0F});
}

TEST_CASE("Samples in other units than those of a map are recognised, and ordinary ones are not", "[data]") {
  constexpr std::size_t rows = 40, width = 3;
  const auto samples = [](double factor, double offset, std::size_t count) {
    std::vector<float> values;
    for (std::size_t i = 0; i < count * width; ++i)
      values.push_back(static_cast<float>(factor * static_cast<double>(i * i * 7 % 256) + offset));
    return Samples(width, values);
  };
  for (const Standardise kind : {Standardise::scalar, Standardise::feature}) {
    const AffineMap bytes = standardisation(samples(1.0, 0.0, rows), kind, ""),
                    fractions = standardisation(samples(1.0 / 255.0, 0.0, rows), kind, "");
    CHECK(hasAnotherScale(samples(1.0 / 255.0, 0.0, rows), bytes));
    CHECK(hasAnotherScale(samples(1.0, 0.0, rows), fractions));
    CHECK(hasAnotherScale(samples(1.0, 200.0, 1), fractions)); // too few to be alike, but far away
    CHECK(hasAnotherScale(samples(1.0, 1e5, rows), bytes));
    for (const double factor : {0.1, 1.0, 10.0})
      CHECK_FALSE(hasAnotherScale(samples(factor, 20.0, rows), bytes));
    CHECK_FALSE(
        hasAnotherScale(Samples(width, std::vector<float>(width, 0.0F)), bytes)); // a single blank one
    CHECK_FALSE(hasAnotherScale(Samples(), bytes));
  }
  const AffineMap none = standardisation(samples(1.0, 0.0, rows), Standardise::none, "");
  CHECK_FALSE(hasAnotherScale(samples(1e6, 0.0, rows), none));
}

TEST_CASE("A feature with rare values has no scale of its own", "[data]") {
  constexpr std::size_t width = 4;
  const AffineMap map{{0.0F, 0.0F, 0.0F, 0.001F}, {0.5F, 0.5F, 0.5F, 1000.0F}};
  std::vector<float> values;
  for (std::size_t i = 0; i < 30; ++i)
    for (std::size_t j = 0; j < width; ++j)
      values.push_back(j == 3 ? (i == 0 ? 1.0F : 0.0F) : (i % 2 == 0 ? 2.0F : -2.0F));
  CHECK_FALSE(hasAnotherScale(Samples(width, values), map));
}

TEST_CASE("The validation split is seeded, disjoint and outside the standardisation", "[data]") {
  const ScratchFolder folder;
  DataSection section = idxSection(folder);
  section.validation = 0.3;
  const DataSets sets = loadData(section, 1, Need::everything);
  REQUIRE(sets.validation.size() == 3);
  REQUIRE(sets.train.size() == 7);
  std::set<float> seen;
  double sum = 0.0;
  for (std::size_t i = 0; i < 7; ++i) {
    const std::vector<float> row = rawRow(sets.train.features, i);
    CHECK(sets.train.labels[i] == static_cast<int>(row[0] / 2) % 5);
    seen.insert(row[0]);
    sum += row[0] + row[1];
  }
  for (std::size_t i = 0; i < 3; ++i) seen.insert(rawRow(sets.validation.features, i)[0]);
  CHECK(seen.size() == 10);
  CHECK(sets.shift[0] == Approx(sum / 14));
  CHECK(loadData(section, 1, Need::labels_only).validation.labels == sets.validation.labels);

  std::set<std::vector<std::int32_t>> drawn;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const DataSets split = loadData(section, seed, Need::labels_only);
    drawn.insert({split.validation.labels.begin(), split.validation.labels.end()});
  }
  CHECK(drawn.size() > 1);
}

TEST_CASE("Fractions of the training set are those of the whole one", "[data]") {
  const ScratchFolder folder;
  DataSection section;
  section.kind = DataKind::libsvm;
  section.path = folder.path();
  section.train_file = "train";
  section.test_fraction = section.validation = 0.3;
  std::string rows;
  for (int i = 0; i < 10; ++i) rows += std::to_string(i % 2) + " 1:" + std::to_string(i + 1) + "\n";
  folder.write("train", rows);
  const DataSets sets = loadData(section, 1, Need::everything);
  CHECK(sets.test.size() == 3);
  CHECK(sets.validation.size() == 3);
  CHECK(sets.train.size() == 4);
  section.test_fraction = 0.0;
  const DataSets validation = loadData(section, 1, Need::everything);
  REQUIRE(validation.validation.size() == 3);
  std::set<float> tested, validated; // drawn independently
  for (std::size_t i = 0; i < 3; ++i) {
    tested.insert(rawRow(sets.test.features, i).front());
    validated.insert(rawRow(validation.validation.features, i).front());
  }
  CHECK(tested != validated);
}

TEST_CASE("A fraction that a double stores a little too small holds out the samples it means", "[data]") {
  const ScratchFolder folder;
  DataSection section;
  section.kind = DataKind::libsvm;
  section.path = folder.path();
  section.train_file = "train";
  std::string rows;
  for (int i = 0; i < 100; ++i) rows += std::to_string(i % 2) + " 1:" + std::to_string(i + 1) + "\n";
  folder.write("train", rows);
  for (const int percent : {1, 7, 28, 29, 57, 58}) {
    section.test_fraction = percent / 100.0;
    CHECK(loadData(section, 1, Need::labels_only).test.size() == static_cast<std::size_t>(percent));
  }
  section.test_fraction = 0.299;
  CHECK(loadData(section, 1, Need::labels_only).test.size() == 29);
}

TEST_CASE("Limits take the first samples and keep the classes of the file", "[data]") {
  const ScratchFolder folder;
  DataSection section = idxSection(folder);
  section.samples = 3;
  section.test_samples = 100;
  const DataSets sets = loadData(section, 1, Need::everything);
  CHECK(sets.train.labels == std::vector<std::int32_t>{0, 1, 2});
  CHECK(sets.train.features.rows() == 3);
  CHECK(sets.test.size() == 4);
  CHECK(sets.classes == 5);
  CHECK(sets.shift[0] == Approx(2.5));
}

TEST_CASE("A network trained on labels of a LIBSVM file finds them in other files", "[data]") {
  const ScratchFolder folder;
  DataSection section = idxSection(folder);
  const DataSets own = loadData(section, 1, Need::everything);
  const TrainedInput trained{6, own.shape, own.shift, own.scale, {-3, 0, 1, 2, 3, 4}};
  const DataSets sets = loadData(section, 1, Need::everything, &trained);
  CHECK(sets.label_values == trained.label_values);
  REQUIRE(sets.test.labels.size() == own.test.labels.size());
  for (std::size_t i = 0; i < own.test.labels.size(); ++i)
    CHECK(sets.test.labels[i] == own.test.labels[i] + 1);
}

TEST_CASE("An evaluation reads no training files if there is a test set", "[data]") {
  const ScratchFolder folder;
  DataSection section = idxSection(folder);
  section.validation = 0.2;
  std::filesystem::remove(folder.path("images"));
  std::filesystem::remove(folder.path("labels"));
  const TrainedInput trained{5, {1, 1, 2}, {0.0F}, {1.0F}, {}};
  const DataSets sets = loadData(section, 1, Need::everything, &trained);
  CHECK(sets.train.size() == 0);
  CHECK(sets.shape == trained.shape);
  CHECK(sets.classes == 5);
  CHECK(sets.test.size() == 4);
  CHECK(standardisedRow(sets, sets.test.features, 3) == std::vector<float>{6, 7});
  CHECK_THAT(messageFor(section), ContainsSubstring("no such file"));
}

TEST_CASE("Samples of a trained network are standardised as in its training", "[data]") {
  const ScratchFolder folder;
  const TrainedInput trained{5, {1, 1, 2}, {3.0F}, {0.5F}, {}};
  const DataSets sets = loadData(idxSection(folder), 1, Need::everything, &trained);
  CHECK(sets.shift == trained.shift);
  CHECK(sets.scale == trained.scale);
  CHECK(standardisedRow(sets, sets.test.features, 3) == std::vector<float>{1.5F, 2.0F});
}

TEST_CASE("Labels alone read no image, but check the counts", "[data]") {
  const ScratchFolder folder;
  const DataSection section = idxSection(folder);
  folder.write("images", idxFile({10, 1, 2}, 3));
  const DataSets sets = loadData(section, 1, Need::labels_only);
  CHECK(sets.shape == std::vector<std::int64_t>{1, 1, 2});
  CHECK(sets.train.features.rows() == 0);
  CHECK(sets.scale.empty());
  folder.write("images", idxFile({11, 1, 2}, 22));
  CHECK_THAT(messageFor(section, Need::labels_only), ContainsSubstring("11 images, but 10 labels in "));
}

TEST_CASE("Classes without a training sample are told, whatever part of the file is used", "[data]") {
  const ScratchFolder folder;
  DataSection section = idxSection(folder);
  const auto warned = [&](const std::vector<std::uint8_t>& labels) {
    folder.write("labels", idxLabels(labels));
    const std::size_t before = Log::warnings().size();
    for (const Need need : {Need::labels_only, Need::everything}) loadData(section, 1, need);
    const std::vector<std::string> all = Log::warnings();
    return joined(std::vector<std::string>(all.begin() + static_cast<std::ptrdiff_t>(before), all.end()),
                  "|");
  };
  section.samples = 2;
  section.validation = 0.5;
  CHECK(warned({0, 1, 2, 3, 4, 0, 1, 2, 3, 4}).empty());
  const std::string file = folder.path("labels");
  CHECK(warned({1, 2, 3, 4, 1, 2, 3, 4, 1, 2}) ==
        file + ": class 0 has no training sample; do the labels start at 1?");
  CHECK(warned({0, 1, 2, 4, 0, 1, 2, 4, 0, 1}) == file + ": no training sample is of 1 of the 5 classes: 3");
  CHECK(warned({0, 1, 2, 9, 0, 1, 2, 9, 0, 1}) ==
        file + ": no training sample is of 6 of the 10 classes: 3, 4, 5, 6, 7, ...");
  CHECK(warned({0, 1, 2, 9, 0, 1, 2, 9, 0, 1}).empty()); // told already
  section.classes = 12;
  CHECK(warned({0, 1, 2, 8, 0, 1, 2, 8, 0, 1}).empty()); // the deck says so
}

TEST_CASE("Sets that do not fit together get one clear line", "[data]") {
  const ScratchFolder folder;
  DataSection section = idxSection(folder);
  SECTION("counts") {
    folder.write("test-labels", idxLabels({1, 2, 3}));
    CHECK_THAT(messageFor(section), ContainsSubstring("test-images: 4 images, but 3 labels in "));
  }
  SECTION("shapes") {
    folder.write("test-images", idxFile({4, 2, 2}, 16));
    CHECK_THAT(
        messageFor(section),
        ContainsSubstring(
            "test-images: samples have the shape 1 x 2 x 2, but those of the training set have 1 x 1 x 2"));
  }
  SECTION("test label beyond the training set") {
    folder.write("test-labels", idxLabels({0, 1, 5, 0}));
    CHECK_THAT(messageFor(section),
               ContainsSubstring(
                   "test-labels: label 5 of sample 2 is outside 0..4 (the labels of the training set)"));
  }
  SECTION("label beyond the deck's classes") {
    section.classes = 3;
    CHECK_THAT(messageFor(section),
               ContainsSubstring("labels: label 3 of sample 3 is outside 0..2 (data/classes)"));
  }
  SECTION("validation takes all") {
    section.samples = 1;
    section.validation = 0.5;
    CHECK_THAT(messageFor(section),
               ContainsSubstring("data/validation: of 1 sample, none is left for training"));
  }
}

TEST_CASE("Real EMNIST and MNIST files load", "[data]") {
  struct Case {
    std::string folder, train, test;
    std::size_t samples, test_samples;
    std::int64_t classes;
  };
  for (const Case& real : {Case{"emnist47_mini", "emnist47-train", "emnist47-test", 4700, 940, 47},
                           Case{"mnist_mini", "train", "t10k", 2000, 500, 10}}) {
    const std::string path = realData(real.folder);
    if (path.empty()) {
      WARN("skipped: PARTITA_DATA holds no folder " << real.folder);
      continue;
    }
    DataSection section;
    section.kind = DataKind::idx;
    section.path = path;
    section.train_images = real.train + "-images-idx3-ubyte";
    section.train_labels = real.train + "-labels-idx1-ubyte";
    section.test_images = real.test + "-images-idx3-ubyte";
    section.test_labels = real.test + "-labels-idx1-ubyte";
    const DataSets sets = loadData(section, 1, Need::everything);
    CHECK(sets.train.size() == real.samples);
    CHECK(sets.test.size() == real.test_samples);
    CHECK(sets.classes == real.classes);
    CHECK(sets.shape == std::vector<std::int64_t>{1, 28, 28});
  }
}

TEST_CASE("Real LIBSVM files load", "[data]") {
  const std::string path = realData("libsvm");
  if (path.empty()) {
    WARN("skipped: PARTITA_DATA holds no folder libsvm");
    return;
  }
  DataSection section;
  section.kind = DataKind::libsvm;
  section.path = path;
  section.train_file = "a9a";
  section.test_file = "a9a.t";
  const DataSets sets = loadData(section, 1, Need::everything);
  CHECK(sets.train.size() == 32560);
  CHECK(sets.test.size() == 16281);
  CHECK(sets.classes == 2);
  CHECK(sets.width() >= 122);
}

} // namespace partita::test::data_load
