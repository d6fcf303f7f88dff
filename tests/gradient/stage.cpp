#include "partita/nn/stage.hpp"

#include "partita/nn/loss.hpp"

#include "numerical.hpp"
#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/stored_values.hpp"

namespace partita::test::stage {

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t rows = 4, inputs = 6;

/// Entrance activation, then three dense layers, the middle one without bias.
StagePlan mixedStage() {
  StagePlan plan;
  LayerPlan entrance;
  entrance.spec.type = "activation";
  entrance.in = entrance.out = {inputs};
  entrance.spec.activation = Activation::leaky_relu;
  entrance.spec.slope = 0.2;
  plan.layers.push_back(entrance);
  const std::vector<std::pair<std::int64_t, Activation>> dense{
      {7, Activation::tanh}, {9, Activation::gelu}, {5, Activation::identity}};
  for (const auto& [outputs, activation] : dense) {
    LayerPlan layer;
    layer.index = layer.number = static_cast<std::int64_t>(plan.layers.size());
    layer.in = plan.layers.back().out;
    layer.out = {outputs};
    layer.spec.activation = activation;
    layer.spec.dense.bias = outputs != 9;
    plan.layers.push_back(layer);
  }
  return plan;
}

/// A stage with a cross-entropy loss.
class StageProbe {
 public:
  explicit StageProbe(const StagePlan& plan)
      : _stage(plan, std::vector<Real>(static_cast<std::size_t>(plan.storedValues())), rows),
        _tape(_stage.makeTape(rows)), _score(rows), _loss(makeCrossEntropy(0.1)),
        _classes(labelsOf({1, 0, 4, 2})) {}

  double value(const Values& parameters, const Values& in) {
    assign(_stage.parameters(), asStored(_stage.plan().layers, parameters));
    const Matrix output = _stage.forward(space, {}, matrixOf(rows, inputs, in), _tape);
    _loss->evaluate(space, output, {_classes, Matrix()}, 0.25, Matrix(), _score);
    return 0.25 * _score.take(space).loss;
  }

  /// Gradients of the parameters; `grad_in` may be empty.
  Values gradients(const Values& parameters, const Values& in, const Matrix& grad_in) {
    assign(_stage.parameters(), asStored(_stage.plan().layers, parameters));
    const Matrix input = matrixOf(rows, inputs, in);
    const Matrix output = _stage.forward(space, {}, input, _tape);
    const Matrix grad = _stage.outputGradient(rows);
    _loss->evaluate(space, output, {_classes, Matrix()}, 0.25, grad, _score);
    _stage.backward(space, {}, input, _tape, grad, grad_in);
    return packedOf(_stage.plan().layers, valuesOf(_stage.gradients()));
  }

 private:
  Stage _stage;
  Tape _tape;
  Score _score;
  std::unique_ptr<Loss> _loss;
  Labels _classes;
};

} // namespace

TEST_CASE("A stage of several layers with an entrance activation", "[gradient]") {
  const StagePlan plan = mixedStage();
  StageProbe probe(plan);
  const Values parameters = normals(plan.parameters(), 11);
  const Values in = awayFromZero(normals(rows * inputs, 12));
  const Values numerical_in =
      numericalGradient([&](const Values& x) { return probe.value(parameters, x); }, in);
  const Values numerical = numericalGradient([&](const Values& p) { return probe.value(p, in); }, parameters);

  const Matrix grad_in = makeMatrix("partita::test::grad_in", rows, inputs);
  const Values gradients = probe.gradients(parameters, in, grad_in);
  CHECK(relativeError(gradients, numerical) < gradient_tolerance);
  CHECK(relativeError(valuesOf(grad_in), numerical_in) < gradient_tolerance);
  CHECK(probe.gradients(parameters, in, Matrix()) == gradients); // the shorter pass gives the same numbers
}

} // namespace partita::test::stage
