#include "partita/comm/part_exchange.hpp"
#include "partita/nn/loss.hpp"

#include "small_run.hpp"
#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::divided_entropy {

/// The cross-entropy of logits that ranks have by class is that of all of them.

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t samples = 6, labels = 2, rows = samples * labels;
constexpr std::int64_t classes = 37; // on devices a warp has the row of each of four parts

/// A batch of which each rank has the logits of its classes.
class DividedBatch {
 public:
  explicit DividedBatch(double smoothing, bool soft)
      : _soft(soft), _smoothing(smoothing), _parts(everyone(), MessagePaths().messages, _traffic) {
    for (int part = 0; part < everyone().size(); ++part)
      _classes.ranges.push_back(rangeOf(classes, everyone().size(), part));
    _classes.own = everyone().rank();
    Values weights = normals(rows * classes, 3);
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0.0;
      for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(weights[index(i, c)]);
      for (std::int64_t c = 0; c < classes; ++c) weights[index(i, c)] = std::exp(weights[index(i, c)]) / sum;
    }
    std::vector<std::int32_t> numbers;
    for (std::int64_t i = 0; i < rows; ++i) numbers.push_back(static_cast<std::int32_t>(i * 5 % classes));
    _targets = {labelsOf(numbers), soft ? matrixOf(rows, classes, weights) : Matrix()};
  }

  struct Result {
    Score::Sums sums;
    Values gradient; ///< empty if none is wanted
  };
  Result whole(const Values& logits, bool learns = true) const {
    return evaluate(*makeCrossEntropy(_smoothing), logits, {0, classes}, learns);
  }
  /// The gradient is that of the own classes.
  Result divided(const Values& logits, bool learns = true) {
    const auto loss = makeDividedCrossEntropy(_smoothing, _classes, rows);
    loss->share(_parts);
    return evaluate(*loss, logits, own(), learns);
  }

  IndexRange own() const { return _classes.ranges[static_cast<std::size_t>(_classes.own)]; }
  static std::size_t index(std::int64_t row, std::int64_t column) {
    return static_cast<std::size_t>(row * classes + column);
  }
  static Values columns(const Values& all, const IndexRange& range) {
    Values some;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t c = range.begin; c < range.end; ++c) some.push_back(all[index(i, c)]);
    return some;
  }

 private:
  Result evaluate(Loss& loss, const Values& logits, const IndexRange& range, bool learns) const {
    const std::int64_t values = labels * range.size();
    const Matrix output = matrixOf(samples, values, columns(logits, range)),
                 grad = learns ? makeMatrix("partita::test::grad", samples, values) : Matrix();
    Score score(rows);
    loss.evaluate(space, output, _targets, Real(1.0 / samples), grad, score);
    return {score.take(space), learns ? valuesOf(grad) : Values()};
  }

  bool _soft;
  double _smoothing;
  ClassParts _classes;
  Targets _targets;
  Traffic _traffic;
  PartExchange _parts;
};

} // namespace

TEST_CASE("A loss divided by class is that of one rank", "[parts][loss]") {
  const Values logits = normals(rows * classes, 1);
  for (const double smoothing : {0.0, 0.2}) {
    for (const bool soft : {false, true}) {
      INFO(smoothing << (soft ? ", soft targets" : ""));
      DividedBatch batch(smoothing, soft);
      const auto whole = batch.whole(logits), divided = batch.divided(logits);
      CHECK(divided.sums.loss == Approx(whole.sums.loss).epsilon(1e-6));
      CHECK(divided.sums.correct == whole.sums.correct);
      CHECK(divided.sums.rows == whole.sums.rows);
      CHECK(relativeError(divided.gradient, DividedBatch::columns(whole.gradient, batch.own())) < 1e-6);
      CHECK(batch.divided(logits, false).sums.loss == DividedBatch(0.0, soft).divided(logits).sums.loss);
    }
  }
}

TEST_CASE("Hits of divided logits are those of one rank, ties included", "[parts][loss]") {
  Values logits = normals(rows * classes, 2);
  for (std::int64_t i = 0; i < rows; ++i) { // the largest logit twice: the first class counts
    const std::int64_t first = i * 5 % classes;
    logits[DividedBatch::index(i, first)] = 9.0;
    if (i % 2 == 0) logits[DividedBatch::index(i, (first + 7) % classes)] = 9.0;
  }
  DividedBatch batch(0.0, false);
  const double hits = batch.whole(logits).sums.correct;
  CHECK(hits < static_cast<double>(rows));
  CHECK(batch.divided(logits).sums.correct == hits);
}

TEST_CASE("Huge logits of one part give no infinities", "[parts][loss]") {
  Values logits(static_cast<std::size_t>(rows * classes), -1e4);
  for (std::int64_t i = 0; i < rows; ++i) logits[DividedBatch::index(i, i % classes)] = 1e4;
  DividedBatch batch(0.0, false);
  const auto whole = batch.whole(logits), divided = batch.divided(logits);
  CHECK(divided.sums.loss == Approx(whole.sums.loss));
  CHECK(divided.gradient == DividedBatch::columns(whole.gradient, batch.own()));
}

TEST_CASE("A divided loss of large logits that lie close together equals that of one rank", "[parts][loss]") {
  for (const double level : {1e4, -1e4}) {
    Values logits = normals(rows * classes, 5);
    for (double& logit : logits) logit += level;
    for (const double smoothing : {0.0, 0.2}) {
      for (const bool soft : {false, true}) {
        INFO(level << ", " << smoothing << (soft ? ", soft targets" : ""));
        DividedBatch batch(smoothing, soft);
        const auto whole = batch.whole(logits), divided = batch.divided(logits);
        CHECK(divided.sums.loss == Approx(whole.sums.loss).epsilon(1e-6));
        CHECK(divided.sums.correct == whole.sums.correct);
      }
    }
  }
}

TEST_CASE("The gradient of a divided loss is that of differences", "[parts][loss]") {
  const Values logits = normals(rows * classes, 4);
  for (const bool soft : {false, true}) {
    DividedBatch batch(0.1, soft);
    Values numerical;
    constexpr double h = 0.1; // in single precision, with differences of fourth order
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t c = 0; c < classes; ++c) {
        const auto at = [&](double step) {
          Values moved = logits;
          moved[DividedBatch::index(i, c)] += step;
          return batch.divided(moved).sums.loss;
        };
        numerical.push_back((8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h * rows));
      }
    }
    CHECK(relativeError(batch.divided(logits).gradient, DividedBatch::columns(numerical, batch.own())) <
          1e-3);
  }
}

} // namespace partita::test::divided_entropy
