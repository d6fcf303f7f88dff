#include "partita/config/names.hpp"
#include "partita/nn/loss.hpp"

#include "numerical.hpp"
#include "support/catch.hpp"
#include "support/default_space.hpp"

namespace partita::test::losses {

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t rows = 4, classes = 5;

struct Result {
  double value = 0.0;
  Values gradient;
};

/// J = weight * sum of the losses of all rows, and dJ/doutput.
Result evaluate(Loss& loss, std::int64_t width, const Values& output, const Targets& targets, double weight) {
  const Matrix grad = makeMatrix("partita::test::grad", rows, width);
  Score score(rows);
  loss.evaluate(space, matrixOf(rows, width, output), targets, weight, grad, score);
  return {weight * score.take(space).loss, valuesOf(grad)};
}

/// `evaluated`: what the loss is without a gradient.
void checkLoss(Loss& loss, std::int64_t width, const Targets& targets, Loss& evaluated) {
  const Values output = normals(rows * width, 8);
  const auto value = [&](const Values& x) { return evaluate(loss, width, x, targets, 0.25).value; };
  const Result result = evaluate(loss, width, output, targets, 0.25);
  CHECK(relativeError(result.gradient, numericalGradient(value, output)) < gradient_tolerance);

  const Result doubled = evaluate(loss, width, output, targets, 0.5);
  CHECK(relativeError(doubled.gradient, result.gradient) == Approx(1.0).epsilon(1e-12));

  Score score(rows);
  loss.evaluate(space, matrixOf(rows, width, output), targets, 1.0, Matrix(), score);
  CHECK(0.25 * score.take(space).loss ==
        Approx(evaluate(evaluated, width, output, targets, 0.25).value).epsilon(1e-12));
}

/// Targets as classes alone, and as distributions over the classes.
void checkHardAndSoft(Loss& loss, std::int64_t width, Loss& evaluated) {
  const Labels hard = labelsOf({0, 4, 2, 2});
  checkLoss(loss, width, {hard, Matrix()}, evaluated);
  checkLoss(loss, width, {hard, matrixOf(rows, classes, distributions(rows, classes, 3))}, evaluated);
}
void checkHardAndSoft(Loss& loss, std::int64_t width) {
  checkHardAndSoft(loss, width, loss);
}

} // namespace

TEST_CASE("Cross-entropy, with and without label smoothing, of which evaluations have none", "[gradient]") {
  for (const double smoothing : {0.0, 0.1, 0.7}) {
    INFO("smoothing " << smoothing);
    checkHardAndSoft(*makeCrossEntropy(smoothing), classes, *makeCrossEntropy(0.0));
  }
}

TEST_CASE("Mean squared error to one-hot labels", "[gradient]") {
  checkHardAndSoft(*makeLabelMse(makeOneHotLabels(classes), rows), classes);
}

/// The cross-entropy of what fixed labels read from an output.
class Prototype : public Loss {
 public:
  explicit Prototype(const SilLabels& labels) : _decoder(labels, rows), _loss(makeCrossEntropy(0.0)) {}
  bool decodesInTraining() const override { return true; }

 private:
  void evaluateRows(const ExecSpace& on, const TypedMatrix& output, const Targets& targets,
                    const DeviceFactor& weight, const TypedMatrix& grad, Score& score) override {
    const Matrix logits = _decoder.forward(on, output.real()),
                 logit_gradient = grad.size() > 0 ? _decoder.logitGradient(logits) : Matrix();
    _loss->evaluate(on, logits, targets, weight, logit_gradient, score);
    if (grad.size() > 0) _decoder.backward(on, logit_gradient, grad.real());
  }

  LabelDecoder _decoder;
  std::unique_ptr<Loss> _loss;
};

TEST_CASE("Label losses, every kind of fixed labels", "[gradient]") {
  constexpr std::int64_t width = 11;
  for (auto kind = static_cast<std::size_t>(LabelKind::uniform); kind < namesOf<LabelKind>().size(); ++kind) {
    INFO(namesOf<LabelKind>()[kind]);
    const SilLabels labels = makeSilLabels(static_cast<LabelKind>(kind), 0.8, 0.0, classes, width, 2, 1);
    checkHardAndSoft(*makeLabelMse(labels, rows), width);
    Prototype prototype(labels);
    checkHardAndSoft(prototype, width);
  }
}

TEST_CASE("Fixed labels with a temperature of the user's", "[gradient]") {
  const SilLabels labels = makeSilLabels(LabelKind::orthogonal, 1.0, 0.7, classes, 9, 2, 1);
  CHECK(labels.temperature == 0.7);
  Prototype prototype(labels);
  checkHardAndSoft(prototype, 9);
}

} // namespace partita::test::losses
