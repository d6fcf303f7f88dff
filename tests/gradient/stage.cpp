#include "partita/nn/stage.hpp"

#include "partita/config/deck.hpp"
#include "partita/nn/loss.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/partition.hpp"

#include "numerical.hpp"
#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/images.hpp"
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
    const Matrix input = matrixOf(rows, inputs, in);
    const Matrix output = _stage.forward(space, {}, input, _tape).real();
    const Matrix grad = _stage.outputGradient(rows); // without it, nothing would be smoothed
    _loss->evaluate(space, output, {_classes, Matrix()}, 0.25, grad, _score);
    return 0.25 * _score.take(space).loss;
  }

  /// Gradients of the parameters; `grad_in` may be empty.
  Values gradients(const Values& parameters, const Values& in, const Matrix& grad_in) {
    assign(_stage.parameters(), asStored(_stage.plan().layers, parameters));
    const Matrix input = matrixOf(rows, inputs, in);
    const Matrix output = _stage.forward(space, {}, input, _tape).real();
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

namespace {

/// The local loss of the first stage of a deck as a function of all its parameters, those of its head
/// included.
class LocalLoss {
 public:
  LocalLoss(const RunConfig& config, const Shape& input)
      : _plan(planPartition(config, planNetwork(config.network, input, classes), classes).stages.front()),
        _stage(_plan, Stage::initialValues(_plan, 1), rows), _tape(_stage.makeTape(rows)),
        _head_tape(_stage.makeHeadTape(rows)), _score(rows), _loss(makeCrossEntropy(0.0)),
        _in(matrixOf(rows, _plan.inputs(), normals(rows * _plan.inputs(), 5))) {}

  const std::vector<LayerPlan>& head() const { return _plan.head; }
  Values start() const { return packedOf(_plan.allLayers(), valuesOf(_stage.parameters())); }

  double value(const Values& parameters) {
    _loss->evaluate(space, logitsOf(parameters), targets(), 0.25, Matrix(), _score);
    return 0.25 * (_score.take(space).loss + _plan.reconstruct / 2 * squaredError());
  }

  Values gradients(const Values& parameters) {
    const Matrix logits = logitsOf(parameters), grad = _stage.logitGradient(logits),
                 output = _tape.output().real();
    _loss->evaluate(space, logits, targets(), 0.25, grad, _score);
    _stage.backwardHead(space, {}, output, _head_tape, grad);
    const Matrix output_gradient = _stage.outputGradient(_tape.rows);
    _stage.addReconstruction(space, {}, _in, output, 0.25, output_gradient);
    _stage.backward(space, {}, _in, _tape, output_gradient, Matrix());
    return packedOf(_plan.allLayers(), valuesOf(_stage.gradients()));
  }

 private:
  static constexpr std::int64_t classes = 5;

  Matrix logitsOf(const Values& parameters) {
    assign(_stage.parameters(), asStored(_plan.allLayers(), parameters));
    return _stage.forwardHead(space, {}, _stage.forward(space, {}, _in, _tape).real(), _head_tape);
  }
  static Targets targets() { return {labelsOf({1, 0, 4, 2}), Matrix()}; }

  /// Sum over the batch of the mean squared difference between the decoded output and the input, averaged
  /// over windows of the rows and columns of an image.
  double squaredError() const {
    if (_plan.decoder.empty()) return 0.0;
    const LayerPlan& decoder = _plan.decoder.front();
    const Shape &in = _plan.layers.front().in, &out = decoder.out;
    const std::int64_t places = out.size() > 1 ? out[1] * out[2] : 1, channels = decoder.outputs() / places,
                       inner = decoder.inputs() / places, window = _plan.decoder_window;
    const Values parameters = packedOf(_plan.allLayers(), valuesOf(_stage.parameters()));
    const double* weight = parameters.data() + countParameters(_plan.layers);
    const double* bias = weight + channels * inner;
    const Values outputs = asInShape(valuesOf(_tape.output().real()), decoder.in),
                 inputs_here = asInShape(valuesOf(_in), in);
    double sum = 0.0;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t p = 0; p < places; ++p) {
          double error = bias[c];
          for (std::int64_t k = 0; k < inner; ++k)
            error += weight[c * inner + k] * outputs[row * decoder.inputs() + k * places + p];
          const std::int64_t columns = places > 1 ? out[2] : 1;
          for (std::int64_t i = 0; i < window * window; ++i) {
            const std::int64_t y = p / columns * window + i / window, x = p % columns * window + i % window;
            const std::int64_t at = places > 1 ? (c * in[1] + y) * in[2] + x : c;
            error -= inputs_here[row * _plan.inputs() + at] / static_cast<double>(window * window);
          }
          sum += error * error / static_cast<double>(decoder.outputs());
        }
      }
    }
    return sum;
  }

  StagePlan _plan;
  Stage _stage;
  Tape _tape, _head_tape;
  Score _score;
  std::unique_ptr<Loss> _loss;
  Matrix _in;
};

void checkHead(const Shape& input, const std::string& layers, const std::string& head,
               std::size_t head_layers) {
  INFO(head);
  const RunConfig config = parseDeck("[network]\nlayers = " + layers +
                                         "\n[strategy]\nkind = \"sil\"\nstages = 2\ncuts = [1]\n" + head,
                                     "deck.toml");
  LocalLoss loss(config, input);
  REQUIRE(loss.head().size() == head_layers);
  Values parameters = loss.start();
  const Values noise = normals(static_cast<std::int64_t>(parameters.size()), 3);
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] += 0.1 * noise[i];
  const Values numerical = numericalGradient([&](const Values& p) { return loss.value(p); }, parameters);
  CHECK(relativeError(loss.gradients(parameters), numerical) < gradient_tolerance);
}

} // namespace

TEST_CASE("A stage learns to reconstruct its input", "[gradient]") {
  const std::string dense = "[{type = \"dense\", units = 7, activation = \"tanh\"}, {type = \"dense\"}]";
  for (const Shape& shape : {Shape{6}, Shape{2, 3, 4}}) checkHead(shape, dense, "reconstruct = 0.7", 1);
  const std::string images =
      "[{type = \"conv2d\", channels = 3, kernel = 3, padding = 1, stride = 2, activation = "
      "\"tanh\"}, {type = \"dense\"}]";
  checkHead({2, 6, 4}, images, "reconstruct = 0.7", 1);
  checkHead({2, 5, 5},
            "[{type = \"conv2d\", channels = 3, kernel = 3, padding = 1, activation = \"tanh\"}, "
            "{type = \"dense\"}]",
            "reconstruct = 0.7\nhead = [{type = \"conv2d\", channels = 2, kernel = 3}]", 2);
}

TEST_CASE("Learned labels and heads of layers learn with their stage", "[gradient]") {
  const std::string dense = "[{type = \"dense\", units = 7, activation = \"tanh\"}, {type = \"dense\"}]";
  checkHead({6}, dense, "", 1);
  checkHead({6}, dense, "label_init = \"gaussian\"\ntemperature = 0.7", 1);
  checkHead({6}, dense, "head = [{type = \"dense\", units = 8, activation = \"silu\"}]", 2);
  const std::string images =
      "[{type = \"conv2d\", channels = 3, kernel = 2, activation = \"tanh\"}, {type = \"dense\"}]";
  checkHead({2, 5, 5}, images, "", 1);
  checkHead({2, 5, 5}, images, "label_pool = 2", 2);
  checkHead({2, 5, 5}, images,
            "head = [{type = \"conv2d\", channels = 4, kernel = 3, activation = \"sigmoid\"}, {type = "
            "\"batch-norm\"}]",
            3);
}

} // namespace partita::test::stage
