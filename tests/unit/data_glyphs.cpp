#include "partita/data/built_in_images.hpp"
#include "partita/data/load_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::data_glyphs {

using Catch::Matchers::ContainsSubstring;

namespace {

DataSection glyphSection(std::int64_t samples, std::int64_t test_samples) {
  DataSection section;
  section.samples = samples;
  section.test_samples = test_samples;
  section.standardise = Standardise::none;
  return section;
}

std::vector<std::uint8_t> paintPlain(std::int32_t label) {
  std::vector<std::uint8_t> image(28 * 28);
  GlyphPainter(1, GlyphSplit::train, 28, 0.0, 0.0).paint(0, label, image.data());
  return image;
}

} // namespace

TEST_CASE("Glyphs are a function of seed, split and index", "[data]") {
  const DataSets many = loadData(glyphSection(300, 50), 5, Need::everything);
  const DataSets few = loadData(glyphSection(100, 20), 5, Need::everything);
  CHECK(many.shape == std::vector<std::int64_t>{1, 28, 28});
  CHECK(many.classes == 47);
  CHECK(std::equal(few.train.labels.begin(), few.train.labels.end(), many.train.labels.begin()));
  for (std::size_t i = 0; i < 100; ++i)
    REQUIRE(rawRow(few.train.features, i) == rawRow(many.train.features, i));
  for (std::size_t i = 0; i < 20; ++i) REQUIRE(rawRow(few.test.features, i) == rawRow(many.test.features, i));

  const DataSets other = loadData(glyphSection(100, 20), 6, Need::everything);
  CHECK(other.train.labels != few.train.labels);
  CHECK(rawRow(other.train.features, 0) != rawRow(few.train.features, 0));
  CHECK(rawRow(few.train.features, 0) != rawRow(few.test.features, 0));
}

TEST_CASE("Labels without images are the labels of the images", "[data]") {
  DataSection section = glyphSection(500, 100);
  section.validation = 0.1;
  const DataSets all = loadData(section, 5, Need::everything);
  const DataSets labels = loadData(section, 5, Need::labels_only);
  CHECK(labels.train.labels == all.train.labels);
  CHECK(labels.validation.labels == all.validation.labels);
  CHECK(labels.test.labels == all.test.labels);
  CHECK(labels.shape == all.shape);
  CHECK(labels.classes == all.classes);
  CHECK(labels.train.features.rows() == 0);
  CHECK(labels.shift.empty());
}

TEST_CASE("Glyph classes are balanced in every prefix", "[data]") {
  for (const std::size_t count : {47, 100, 4700}) {
    const std::vector<std::int32_t> labels = glyphLabels(3, GlyphSplit::train, count, 47);
    std::vector<std::size_t> counts(47, 0);
    for (const std::int32_t label : labels) ++counts.at(static_cast<std::size_t>(label));
    const auto [fewest, most] = std::minmax_element(counts.begin(), counts.end());
    CHECK(*most - *fewest <= 1);
  }
  const std::vector<std::int32_t> train = glyphLabels(3, GlyphSplit::train, 141, 47);
  const std::vector<std::int32_t> test = glyphLabels(3, GlyphSplit::test, 47, 47);
  for (std::ptrdiff_t run = 0; run < 3; ++run)
    CHECK_FALSE(std::equal(test.begin(), test.end(), train.begin() + 47 * run));
}

TEST_CASE("Every drawing keeps a margin for strokes and distortion", "[data]") {
  REQUIRE(glyphShapes().size() == 47);
  for (const GlyphShape& shape : glyphShapes())
    for (const Stroke& stroke : shape) {
      CHECK(stroke.size() >= 2);
      for (const Point& point : stroke) {
        CHECK(std::min(point.x, point.y) > 0.09F);
        CHECK(std::max(point.x, point.y) < 0.91F);
      }
    }
}

TEST_CASE("The 47 glyphs are distinct", "[data]") {
  for (std::int32_t a = 0; a < 47; ++a) {
    const std::vector<std::uint8_t> image = paintPlain(a);
    CHECK(std::count_if(image.begin(), image.end(), [](std::uint8_t v) { return v > 128; }) > 20);
    for (std::int32_t b = 0; b < a; ++b) {
      const std::vector<std::uint8_t> other = paintPlain(b);
      int different = 0;
      for (std::size_t i = 0; i < image.size(); ++i) different += std::abs(image[i] - other[i]) > 128 ? 1 : 0;
      INFO("classes " << a << " and " << b);
      CHECK(different >= 8);
    }
  }
}

TEST_CASE("Glyphs come in any size and with any number of classes up to 47", "[data]") {
  DataSection section = glyphSection(40, 10);
  section.image_size = 9;
  section.classes = 4;
  const DataSets sets = loadData(section, 1, Need::everything);
  CHECK(sets.width() == 81);
  CHECK(sets.classes == 4);
  CHECK(std::set<std::int32_t>(sets.train.labels.begin(), sets.train.labels.end()) ==
        std::set<std::int32_t>{0, 1, 2, 3});
  section.classes = 48;
  CHECK_THAT(messageOf([&] { loadData(section, 1, Need::everything); }),
             ContainsSubstring("data/classes: glyphs has 47 classes, not 48"));
}

TEST_CASE("Noise has the deviation the deck asks for", "[data]") {
  // On the brightest strokes contrast 0.8..1 leaves no room to see it, and an image without strokes is not
  // available. The difference between a noisy and a clean image is therefore measured where the clean image
  // is neither black nor white.
  double sum = 0.0, squares = 0.0;
  int count = 0;
  for (std::uint64_t index = 0; index < 200; ++index) {
    std::vector<std::uint8_t> clean(784), noisy(784);
    GlyphPainter(1, GlyphSplit::train, 28, 1.0, 0.0).paint(index, 8, clean.data());
    GlyphPainter(1, GlyphSplit::train, 28, 1.0, 0.05).paint(index, 8, noisy.data());
    for (std::size_t i = 0; i < 784; ++i) {
      if (clean[i] < 70 || clean[i] > 185) continue;
      const double difference = (noisy[i] - clean[i]) / 255.0;
      sum += difference;
      squares += difference * difference;
      ++count;
    }
  }
  REQUIRE(count > 1000);
  CHECK(sum / count == Approx(0.0).margin(0.003));
  CHECK(std::sqrt(squares / count) == Approx(0.05).epsilon(0.05));
}

} // namespace partita::test::data_glyphs
