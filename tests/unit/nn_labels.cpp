#include "partita/config/names.hpp"
#include "partita/config/user_error.hpp"
#include "partita/nn/sil_labels.hpp"

#include <set>

#include "support/catch.hpp"
#include "support/matrices.hpp"

namespace partita::test::nn_labels {

namespace {

constexpr std::int64_t classes = 20, width = 100;

SilLabels make(LabelKind kind, double kappa = 1.0, std::uint64_t seed = 1, int cut = 0) {
  return makeSilLabels(kind, kappa, 0.0, classes, width, seed, cut);
}

Values row(const SilLabels& labels, std::int64_t c) {
  return {labels.values.begin() + c * width, labels.values.begin() + (c + 1) * width};
}

double product(const SilLabels& labels, std::int64_t a, std::int64_t b) {
  return dot(row(labels, a), row(labels, b));
}

double mean(const Values& values) {
  return dot(values, Values(values.size(), 1.0)) / static_cast<double>(values.size());
}

double deviation(const Values& values) {
  return std::sqrt(dot(values, values) / static_cast<double>(values.size()) - mean(values) * mean(values));
}

/// Fraction of values that are exactly `value`.
double share(const Values& values, double value) {
  return static_cast<double>(std::count(values.begin(), values.end(), value)) /
         static_cast<double>(values.size());
}

} // namespace

TEST_CASE("Labels are a function of seed and cut", "[nn]") {
  for (std::size_t kind = 0; kind < namesOf<LabelKind>().size(); ++kind) {
    INFO(namesOf<LabelKind>()[kind]);
    const auto which = static_cast<LabelKind>(kind);
    const Values first = make(which).values;
    CHECK(make(which).values == first);
    if (which == LabelKind::block) continue; // these are not random
    CHECK(make(which, 1.0, 2).values != first);
    CHECK(make(which, 1.0, 1, 1).values != first);
  }
}

TEST_CASE("Kappa scales every kind of labels, and the temperature with them", "[nn]") {
  for (std::size_t kind = 0; kind < namesOf<LabelKind>().size(); ++kind) {
    INFO(namesOf<LabelKind>()[kind]);
    const SilLabels one = make(static_cast<LabelKind>(kind)), three = make(static_cast<LabelKind>(kind), 3.0);
    for (std::size_t i = 0; i < one.values.size(); ++i) CHECK(three.values[i] == Approx(3.0 * one.values[i]));
    CHECK(three.deviation == Approx(3.0 * one.deviation));
    CHECK(three.temperature == Approx(3.0 * one.temperature));
  }
}

TEST_CASE("Independent labels have the distribution of their name", "[nn]") {
  const Values uniform = make(LabelKind::uniform).values, centred = make(LabelKind::centred).values,
               gaussian = make(LabelKind::gaussian).values, sign = make(LabelKind::sign).values,
               binary = make(LabelKind::binary).values, sparse = make(LabelKind::sparse).values;
  CHECK(*std::min_element(uniform.begin(), uniform.end()) >= 0.0);
  CHECK(*std::max_element(uniform.begin(), uniform.end()) < 1.0);
  CHECK(mean(uniform) == Approx(0.5).margin(0.03));
  CHECK(deviation(uniform) == Approx(std::sqrt(1.0 / 12.0)).epsilon(0.05));
  CHECK(mean(centred) == Approx(0.0).margin(0.1));
  CHECK(deviation(centred) == Approx(1.0).epsilon(0.05));
  CHECK(std::abs(*std::max_element(centred.begin(), centred.end())) <= std::sqrt(3.0) + 1e-6);
  CHECK(mean(gaussian) == Approx(0.0).margin(0.1));
  CHECK(deviation(gaussian) == Approx(1.0).epsilon(0.05));
  CHECK(share(sign, 1.0) == Approx(0.5).margin(0.04));
  CHECK(share(sign, 1.0) + share(sign, -1.0) == 1.0);
  CHECK(share(binary, 1.0) == Approx(0.5).margin(0.04));
  CHECK(share(binary, 1.0) + share(binary, 0.0) == 1.0);
  CHECK(share(sparse, 1.0) == Approx(0.1).margin(0.02));
  CHECK(share(sparse, 1.0) + share(sparse, 0.0) == 1.0);
}

TEST_CASE("Orthogonal labels: rows of length sqrt(width), at right angles", "[nn]") {
  const SilLabels labels = make(LabelKind::orthogonal);
  for (std::int64_t a = 0; a < classes; ++a)
    for (std::int64_t b = 0; b <= a; ++b)
      CHECK(product(labels, a, b) == Approx(a == b ? width : 0.0).margin(1e-9));
  CHECK(labels.temperature == Approx(std::sqrt(width)));
}

TEST_CASE("ETF labels: equal lengths, equal obtuse angles, mean zero", "[nn]") {
  const SilLabels labels = make(LabelKind::etf);
  for (std::int64_t a = 0; a < classes; ++a)
    for (std::int64_t b = 0; b <= a; ++b)
      CHECK(product(labels, a, b) == Approx(a == b ? width : -double(width) / (classes - 1)).margin(1e-9));
  for (const double value : labels.mean) CHECK(std::abs(value) < 1e-12);
}

TEST_CASE("Block labels: disjoint groups of equal size", "[nn]") {
  const SilLabels labels = make(LabelKind::block);
  for (std::int64_t a = 0; a < classes; ++a) {
    for (std::int64_t b = 0; b < a; ++b) CHECK(product(labels, a, b) == 0.0);
    CHECK(share(row(labels, a), 0.0) == Approx(0.95));
    CHECK(product(labels, a, a) == Approx(width)); // unit mean square, like the other kinds
  }
}

TEST_CASE("Labels carry their mean row, deviation, centred rows and half squares", "[nn]") {
  const SilLabels labels = make(LabelKind::uniform, 2.0);
  REQUIRE(labels.classes() == classes);
  REQUIRE(labels.width() == width);
  const Values rows = valuesOf(labels.rows), centred = valuesOf(labels.centred),
               halves = valuesOf(labels.half_squares);
  double squares = 0.0;
  for (std::int64_t j = 0; j < width; ++j) {
    double sum = 0.0;
    for (std::int64_t c = 0; c < classes; ++c) sum += row(labels, c)[static_cast<std::size_t>(j)];
    CHECK(labels.mean[static_cast<std::size_t>(j)] == Approx(sum / classes));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i] == Approx(labels.values[i]));
    CHECK(centred[i] == Approx(labels.values[i] - labels.mean[i % width]).margin(1e-6));
    squares += centred[i] * centred[i];
  }
  CHECK(labels.deviation == Approx(std::sqrt(squares / (classes * width))));
  CHECK(labels.temperature == Approx(labels.deviation * std::sqrt(width * double(classes) / (classes - 1))));
  for (std::int64_t c = 0; c < classes; ++c)
    CHECK(halves[static_cast<std::size_t>(c)] == Approx(0.5 * product(labels, c, c)));
}

TEST_CASE("No two classes have the same label, even if units and kinds of entries are few", "[nn]") {
  constexpr std::int64_t few = 10, units = 8;
  for (const LabelKind kind : {LabelKind::sparse, LabelKind::binary, LabelKind::sign}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const SilLabels labels = makeSilLabels(kind, 1.0, 0.0, few, units, seed, 0);
      std::set<Values> rows;
      for (std::int64_t c = 0; c < few; ++c)
        rows.emplace(labels.values.begin() + c * units, labels.values.begin() + (c + 1) * units);
      CHECK(rows.size() == few);
      CHECK(labels.deviation > 0.0);
    }
    CHECK_THROWS_AS(makeSilLabels(kind, 1.0, 0.0, few, 3, 1, 0), UserError); // 2^3 are different
  }
}

TEST_CASE("A temperature of the user's is taken, one-hot labels are what they say", "[nn]") {
  CHECK(makeSilLabels(LabelKind::orthogonal, 2.0, 0.5, classes, width, 1, 0).temperature == 0.5);
  CHECK(makeOneHotLabels(3).values == Values{1, 0, 0, 0, 1, 0, 0, 0, 1});
}

} // namespace partita::test::nn_labels
