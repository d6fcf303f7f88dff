#include "partita/nn/loss.hpp"
#include "partita/nn/softmax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::nn_loss {

namespace {

constexpr DefaultSpace space;

Score::Sums evaluate(Loss& loss, const Matrix& output, const Targets& targets, const Matrix& grad = {}) {
  Score score(static_cast<std::int64_t>(output.extent(0)));
  loss.evaluate(space, output, targets, Real(1), grad, score);
  return score.take(space);
}

Values softmaxOf(const Values& logits, std::int64_t rows) {
  const auto columns = static_cast<std::int64_t>(logits.size()) / rows;
  const Matrix matrix = matrixOf(rows, columns, logits);
  softmax(space, matrix, matrix);
  return valuesOf(matrix);
}

} // namespace

TEST_CASE("The rows of a softmax sum to one, in place too", "[nn]") {
  const std::int64_t rows = 7, columns = 47;
  const Values p = softmaxOf(normals(rows * columns, 1), rows);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Values row(p.begin() + i * columns, p.begin() + (i + 1) * columns);
    CHECK(dot(row, Values(row.size(), 1.0)) == Approx(1.0).epsilon(1e-6));
    for (const double value : row) CHECK(value > 0.0);
  }
  CHECK(softmaxOf({0.0, std::log(3.0)}, 1)[1] == Approx(0.75));
  CHECK(softmaxOf({0.0, std::log(9.0)}, 1)[1] == Approx(0.9));
}

TEST_CASE("Huge logits give no infinities", "[nn]") {
  CHECK(softmaxOf({1e30, 0.0, -1e30}, 1) == Values{1.0, 0.0, 0.0});
  const auto loss = makeCrossEntropy(0.0);
  const Matrix grad = makeMatrix("partita::test::grad", 2, 3);
  const Matrix output = matrixOf(2, 3, {1e4, 0.0, -1e4, 1e4, 0.0, -1e4});
  const Score::Sums sums = evaluate(*loss, output, {labelsOf({0, 1}), Matrix()}, grad);
  CHECK(sums.loss == 1e4);
  CHECK(valuesOf(grad) == Values{0.0, 0.0, 0.0, 1.0, -1.0, 0.0});
}

TEST_CASE("Cross-entropy of known probabilities", "[nn]") {
  const Matrix output = matrixOf(1, 2, {0.0, std::log(3.0)}); // probabilities 1/4 and 3/4
  const double loss0 = std::log(4.0), loss1 = std::log(4.0 / 3.0);
  CHECK(evaluate(*makeCrossEntropy(0.0), output, {labelsOf({0}), Matrix()}).loss == Approx(loss0));
  CHECK(evaluate(*makeCrossEntropy(0.0), output, {labelsOf({1}), Matrix()}).loss == Approx(loss1));
  const Matrix grad = makeMatrix("partita::test::grad", 1, 2);
  CHECK(evaluate(*makeCrossEntropy(0.2), output, {labelsOf({1}), Matrix()}, grad).loss ==
        Approx(0.9 * loss1 + 0.1 * loss0));
  CHECK(evaluate(*makeCrossEntropy(0.2), output, {labelsOf({1}), Matrix()}).loss ==
        Approx(loss1)); // evaluated
  CHECK(evaluate(*makeCrossEntropy(0.0), output, {labelsOf({0}), matrixOf(1, 2, {0.3, 0.7})}).loss ==
        Approx(0.3 * loss0 + 0.7 * loss1));
}

/// All ranks that sum up the gradients must see that one of them has a bad loss.
TEST_CASE("The gradient of a loss that is not finite is not finite either", "[nn]") {
  constexpr double infinity = std::numeric_limits<double>::infinity(), huge = 1e30;
  const auto some_nan = [](const Values& values) {
    return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
  };
  const auto check = [&](Loss& loss, const Values& output, const Targets& targets, Precision precision) {
    const TypedRows stored("partita::test::stored", precision, 2, 3),
        stored_grad("partita::test::stored_grad", precision, 2, 3);
    copyValues(space, matrixOf(2, 3, output), stored.top(2));
    Score score(2);
    loss.evaluate(space, stored.top(2), targets, Real(1), stored_grad.top(2), score);
    CHECK_FALSE(std::isfinite(score.take(space).loss));
    const Matrix grad = makeMatrix("partita::test::grad", 2, 3);
    copyValues(space, stored_grad.top(2), grad);
    CHECK(some_nan(valuesOf(grad)));
  };
  const Targets classes{labelsOf({0, 2}), Matrix()},
      mixed{classes.classes, matrixOf(2, 3, {0.5, 0.5, 0.0, 0.2, 0.3, 0.5})};
  for (const Targets& targets : {classes, mixed}) {
    for (const double bad : {infinity, -infinity}) {
      for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
        check(*makeCrossEntropy(0.0), {1.0, 2.0, 3.0, 1.0, 2.0, bad}, targets, precision);
        check(*makeCrossEntropy(0.1), {bad, 2.0, 3.0, 1.0, 2.0, 3.0}, targets, precision);
      }
    }
    if (sizeof(Real) == sizeof(float)) // the square is infinite, the difference is not
      check(*makeLabelMse(makeOneHotLabels(3), 2), {huge, 2.0, 3.0, 1.0, 2.0, 3.0}, targets,
            Precision::single);
  }
}

TEST_CASE("Cross-entropy of logits of 16 bits is that of the numbers that are stored", "[nn][half]") {
  constexpr std::int64_t rows = 5, columns = 300;
  const Targets targets{labelsOf({0, 7, 299, 150, 7}), Matrix()};
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    const Matrix output = matrixOf(rows, columns, normals(rows * columns, 4)),
                 grad = makeMatrix("partita::test::grad", rows, columns);
    roundTo(space, precision, output);
    const TypedRows stored("partita::test::stored", precision, rows, columns),
        stored_grad("partita::test::stored_grad", precision, rows, columns);
    copyValues(space, output, stored.top(rows));
    const auto loss = makeCrossEntropy(0.1);
    const Score::Sums expected = evaluate(*loss, output, targets, grad);
    Score score(rows);
    loss->evaluate(space, stored.top(rows), targets, Real(1), stored_grad.top(rows), score);
    const Score::Sums found = score.take(space);
    CHECK(found.loss == expected.loss);
    CHECK(found.correct == expected.correct);
    const Matrix found_grad = makeMatrix("partita::test::found_grad", rows, columns);
    copyValues(space, stored_grad.top(rows), found_grad);
    roundTo(space, precision, grad);
    CHECK(relativeError(valuesOf(found_grad), valuesOf(grad)) < 2e-4); // a few are rounded otherwise
  }
}

/// A loss scale need not be known to the host.
TEST_CASE("A weight of which the device knows a factor is the product", "[nn]") {
  const Vector factor = vectorOf({4.0});
  const Matrix output = matrixOf(2, 3, {1.0, 2.0, 3.0, 1.0, -2.0, 0.5});
  const Targets classes{labelsOf({0, 2}), Matrix()},
      mixed{classes.classes, matrixOf(2, 3, {0.5, 0.5, 0.0, 0.2, 0.3, 0.5})};
  const auto gradient = [&](Loss& loss, const Targets& targets, const DeviceFactor& weight) {
    const Matrix grad = makeMatrix("partita::test::grad", 2, 3);
    Score score(2);
    loss.evaluate(space, output, targets, weight, grad, score);
    return valuesOf(grad);
  };
  const SilLabels labels = makeOneHotLabels(3);
  for (const auto& loss : {makeCrossEntropy(0.0), makeCrossEntropy(0.1), makeLabelMse(labels, 2)})
    for (const Targets& targets : {classes, mixed})
      CHECK(gradient(*loss, targets, {Real(0.5), factor.data()}) == gradient(*loss, targets, Real(2)));
}

TEST_CASE("Hits are counted against the class, also where a distribution is learnt", "[nn]") {
  const Matrix output = matrixOf(3, 3, {3, 1, 2, 1, 3, 2, 1, 2, 3});
  const Matrix certain_of_class_0 = matrixOf(3, 3, {1, 0, 0, 1, 0, 0, 1, 0, 0});
  const auto loss = makeCrossEntropy(0.0);
  CHECK(loss->decodesInTraining());
  CHECK(evaluate(*loss, output, {labelsOf({0, 1, 0}), Matrix()}).accuracy() == Approx(2.0 / 3.0));
  CHECK(evaluate(*loss, output, {labelsOf({0, 1, 0}), certain_of_class_0}).accuracy() == Approx(2.0 / 3.0));
}

TEST_CASE("A score adds up batches and starts anew when taken", "[nn]") {
  const auto loss = makeCrossEntropy(0.0);
  Score score(4);
  const auto feed = [&](const std::vector<std::int32_t>& classes) {
    const auto rows = static_cast<std::int64_t>(classes.size());
    const Matrix even = matrixOf(rows, 2, Values(2 * classes.size(), 0.0)); // decoded as class 0
    loss->evaluate(space, even, {labelsOf(classes), Matrix()}, Real(1), Matrix(), score);
  };
  feed({0, 0, 1, 1});
  feed({0, 0, 0}); // a smaller batch
  const Score::Sums sums = score.take(space);
  CHECK(sums.rows == 7.0);
  CHECK(sums.correct == 5.0);
  CHECK(sums.accuracy() == Approx(5.0 / 7.0));
  CHECK(sums.meanLoss() == Approx(std::log(2.0)));
  const Score::Sums empty = score.take(space);
  CHECK(empty.rows == 0.0);
  CHECK(std::isnan(empty.meanLoss()));
  CHECK(std::isnan(empty.accuracy()));
}

TEST_CASE("Squared error is a mean over the width, to the label or a mixture of labels", "[nn]") {
  const SilLabels labels = makeOneHotLabels(2);
  const auto loss = makeLabelMse(labels, 1);
  const Matrix output = matrixOf(1, 2, {0.5, 0.1});
  CHECK(evaluate(*loss, output, {labelsOf({0}), Matrix()}).loss == Approx((0.25 + 0.01) / 2));
  CHECK(evaluate(*loss, output, {labelsOf({0}), matrixOf(1, 2, {0.25, 0.75})}).loss ==
        Approx((0.0625 + 0.65 * 0.65) / 2));
}

TEST_CASE("Label losses decode by the nearest label", "[nn]") {
  const std::int64_t classes = 9, width = 16, rows = 60;
  for (const LabelKind kind : {LabelKind::uniform, LabelKind::gaussian, LabelKind::binary}) {
    const SilLabels labels = makeSilLabels(kind, 1.0, 0.0, classes, width, 5, 0);
    const Values output = normals(rows * width, 6);
    std::vector<std::int32_t> nearest;
    for (std::int64_t i = 0; i < rows; ++i) {
      Values distances(static_cast<std::size_t>(classes), 0.0);
      for (std::int64_t c = 0; c < classes; ++c)
        for (std::int64_t j = 0; j < width; ++j)
          distances[static_cast<std::size_t>(c)] +=
              std::pow(output[static_cast<std::size_t>(i * width + j)] -
                           labels.values[static_cast<std::size_t>(c * width + j)],
                       2);
      nearest.push_back(static_cast<std::int32_t>(std::min_element(distances.begin(), distances.end()) -
                                                  distances.begin()));
    }
    const auto loss = makeLabelMse(labels, rows);
    CHECK_FALSE(loss->decodesInTraining());
    const Matrix matrix = matrixOf(rows, width, output);
    CHECK(evaluate(*loss, matrix, {labelsOf(nearest), Matrix()}).accuracy() == 1.0);
    for (std::int32_t& c : nearest) c = (c + 1) % static_cast<std::int32_t>(classes);
    CHECK(evaluate(*loss, matrix, {labelsOf(nearest), Matrix()}).accuracy() == 0.0);
  }
}

TEST_CASE("Fixed labels are recognised by their decoder", "[nn]") {
  const SilLabels labels = makeSilLabels(LabelKind::orthogonal, 1.0, 0.0, 5, 16, 5, 0);
  LabelDecoder decoder(labels, 5);
  const auto loss = makeCrossEntropy(0.0);
  const Score::Sums sums =
      evaluate(*loss, decoder.forward(space, labels.rows), {labelsOf({0, 1, 2, 3, 4}), Matrix()});
  CHECK(sums.accuracy() == 1.0);
  // z = 4 (4/5 for the class itself, -4/5 / 4 for the others)
  CHECK(sums.meanLoss() == Approx(std::log(1.0 + 4.0 * std::exp(-4.0))).epsilon(1e-4));
}

TEST_CASE("Exits add up weighted log-probabilities", "[nn]") {
  const Matrix sum = matrixOf(2, 2, {7.0, 7.0, 7.0, 7.0}); // is overwritten by the first exit
  addLogSoftmax(space, matrixOf(2, 2, {0.0, std::log(3.0), 1e4, 0.0}), Real(1), Real(0), sum);
  addLogSoftmax(space, matrixOf(2, 2, {0.0, 0.0, 5.0, 5.0}), Real(0.5), Real(1), sum);
  const Values found = valuesOf(sum);
  const double half = 0.5 * std::log(0.5);
  CHECK(found[0] == Approx(std::log(0.25) + half));
  CHECK(found[1] == Approx(std::log(0.75) + half));
  CHECK(found[2] == Approx(half));
  CHECK(found[3] == Approx(-1e4 + half));
}

} // namespace partita::test::nn_loss
