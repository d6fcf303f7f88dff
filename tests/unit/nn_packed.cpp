#include "partita/kernels/products.hpp"
#include "partita/nn/stage.hpp"
#include "partita/plan/network_plan.hpp"

#include <filesystem>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"
#include "support/small_model.hpp"

namespace partita::test::nn_packed {

/// A stage with 16-bit numbers equals the stage in single precision with its parameters, the values between
/// layers and its gradients rounded.

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t rows = 5;

StagePlan planOf(const NetworkSection& network, std::int64_t inputs, std::int64_t classes) {
  RunConfig config;
  config.network = network;
  return planPartition(config, planNetwork(network, {inputs}, classes), classes).stages.front();
}

std::vector<Real> start(const StagePlan& plan) {
  return Stage::initialValues(plan, 1);
}

Values rounded(const Values& values, Precision precision) {
  const Matrix matrix = matrixOf(1, static_cast<std::int64_t>(values.size()), values);
  roundTo(space, precision, matrix);
  return valuesOf(matrix);
}

/// Numbers as stored, converted to Real.
Values stored(const TypedSpan& numbers) {
  const Vector values("partita::test::stored", static_cast<std::size_t>(numbers.size));
  convert(space, numbers, values);
  return valuesOf(values);
}

struct Passed {
  Values output, gradients, input_gradient;
};

/// Forward and backward pass through a stage, accumulated `times` times.
Passed pass(Stage& stage, const Matrix& in, const Values& grad_out, int times) {
  Tape tape = stage.makeTape(rows);
  const Matrix grad_in = makeMatrix("partita::test::grad_in", rows, stage.inputs());
  Pass pass;
  for (int i = 0; i < times; ++i) {
    pass.accumulate = i > 0;
    stage.forward(space, pass, in, tape);
    const Matrix grad = stage.outputGradient(rows);
    assign(grad, grad_out);
    stage.backward(space, pass, in, tape, grad, grad_in);
  }
  return {valuesOf(tape.output().real()), stored(stage.trained().gradients), valuesOf(grad_in)};
}

/// The same bits, unless products of such numbers add up in another order than those of floats: then a few
/// values are rounded the other way, which changes them by at most 2^-8.
void checkSame(const Values& found, const Values& expected, Precision precision) {
  if (multipliesDirectly(precision))
    CHECK(relativeError(found, expected) < 1.0 / 256);
  else
    CHECK(found == expected);
}

} // namespace

TEST_CASE("One layer of 16 bits is that of single precision, rounded", "[half]") {
  const StagePlan plan = planOf(denseNetwork({}, Activation::relu), 20, 7);
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    Stage halves(plan, start(plan), rows, {precision, {}}), reals(plan, start(plan), rows);
    CHECK(halves.parameters().size() == 0);
    CHECK(halves.gradients().size() == 0);
    const std::vector<Real> first = start(plan);
    const Values masters(first.begin(), first.end());
    const Values found = stored(halves.trained().parameters);
    CHECK(found == rounded(masters, precision));
    CHECK(found != masters);
    const std::vector<Real> kept = halves.masters().values(space);
    CHECK(Values(kept.begin(), kept.end()) == masters);

    assign(reals.parameters(), found);
    const Matrix in = matrixOf(rows, 20, normals(rows * 20, 2));
    roundTo(space, precision, in); // as direct products do
    const Values grad_out = normals(rows * 7, 3);
    const Passed own = pass(halves, in, grad_out, 1),
                 expected = pass(reals, in, rounded(grad_out, precision), 1);
    checkSame(own.output, rounded(expected.output, precision), precision);
    checkSame(own.gradients, rounded(expected.gradients, precision), precision);
    checkSame(own.input_gradient, rounded(expected.input_gradient, precision), precision);
    // A later microbatch is added in Real to the rounded gradients of the first.
    const Values twice = pass(halves, in, grad_out, 2).gradients;
    Values sum = own.gradients;
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] = static_cast<double>(static_cast<Real>(sum[i]) + static_cast<Real>(expected.gradients[i]));
    CHECK(relativeError(twice, rounded(sum, precision)) < (multipliesDirectly(precision) ? 1.0 / 256 : 1e-4));
  }
}

TEST_CASE("Groups of layers see each its own numbers", "[half]") {
  NetworkSection network = denseNetwork({12}, Activation::relu);
  LayerSpec residual;
  residual.type = "residual";
  residual.activation = Activation::gelu;
  residual.layers = denseNetwork({15}, Activation::tanh).layers;
  residual.layers.back().dense.units = 12;
  residual.shortcut = {residual.layers.back()};
  network.layers.insert(network.layers.begin() + 1, residual);
  for (const bool recompute : {false, true}) {
    network.layers[1].recompute = recompute;
    const StagePlan plan = planOf(network, 9, 4);
    CHECK(plan.halfScratch(rows) == 15 * 12 + 15); // none of the group itself
    Stage halves(plan, start(plan), rows, {Precision::bf16, {}}), reals(plan, start(plan), rows);
    assign(reals.parameters(), stored(halves.trained().parameters));
    const Matrix in = matrixOf(rows, 9, normals(rows * 9, 2));
    const Values grad_out = normals(rows * 4, 3);
    const Passed own = pass(halves, in, grad_out, 1), expected = pass(reals, in, grad_out, 1);
    CHECK(relativeError(own.output, expected.output) < 0.01);
    CHECK(relativeError(own.gradients, expected.gradients) < 0.02);
    CHECK(relativeError(own.input_gradient, expected.input_gradient) < 0.02);
    CHECK(own.gradients == rounded(own.gradients, Precision::bf16));
  }
}

namespace {

LayerSpec layerOf(const std::string& type) {
  LayerSpec spec;
  spec.type = type;
  return spec;
}

/// Tokens to tokens: the head uses the table of the embedding as weights, in a group or not.
NetworkSection tiedNetwork(std::int64_t width, bool bias, bool grouped) {
  LayerSpec embedding = layerOf("embedding"), inside = layerOf("dense"), head = layerOf("dense");
  embedding.embedding.width = inside.dense.units = width;
  embedding.embedding.positions = bias;
  inside.activation = Activation::gelu;
  head.dense.tied = true;
  head.dense.bias = bias;
  LayerSpec block = layerOf("block");
  block.layers = {inside, head};
  block.recompute = bias;
  NetworkSection network;
  network.layers = {embedding, inside, head};
  if (grouped) network.layers = {embedding, block};
  return network;
}

} // namespace

TEST_CASE("A tied layer of 16 bits has the embedding's table, and adds to its gradient", "[half]") {
  constexpr std::int64_t positions = 6, tokens = 11, width = 8, table = tokens * width;
  Values text(rows * positions);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<double>(i * i % tokens);
  const Matrix in = matrixOf(rows, positions, text);
  const Values grad_out = normals(rows * positions * tokens, 3);
  for (const bool bias : {false, true}) {
    for (const bool grouped : {false, true}) {
      const StagePlan plan = planOf(tiedNetwork(width, bias, grouped), positions, tokens);
      CHECK(plan.halfScratch(rows) == halfOperand(rows * positions, tokens) + (bias ? tokens : 0));
      for (const Precision precision : {Precision::bf16, Precision::fp16}) {
        Stage halves(plan, start(plan), rows, {precision, {}}), reals(plan, start(plan), rows);
        assign(reals.parameters(), stored(halves.trained().parameters));
        const Passed own = pass(halves, in, grad_out, 1), expected = pass(reals, in, grad_out, 1);
        INFO("bias " << bias << ", in a group " << grouped << ", precision " << static_cast<int>(precision));
        CHECK(relativeError(own.output, expected.output) < 0.01);
        const auto firstOf = [](const Values& values) {
          return Values(values.begin(), values.begin() + table);
        };
        CHECK(relativeError(firstOf(own.gradients), firstOf(expected.gradients)) < 0.02);
        CHECK(relativeError(own.gradients, expected.gradients) < 0.02);
        CHECK(own.gradients == rounded(own.gradients, precision));
        // Nothing of a batch remains for the next one, unless it is to be accumulated.
        CHECK(pass(halves, in, grad_out, 1).gradients == own.gradients);
        CHECK(relativeError(pass(halves, in, grad_out, 3).gradients, pass(reals, in, grad_out, 3).gradients) <
              0.02);
      }
    }
  }
}

TEST_CASE("Matrices of 16 bits with more values than a panel are taken panel by panel", "[half]") {
  if (plans_for_device) return; // its panels are larger than these matrices
  constexpr std::int64_t positions = 3, tokens = 1600, width = 700;
  NetworkSection network = tiedNetwork(width, true, false);
  LayerSpec attention = layerOf("attention"), wide = layerOf("dense");
  attention.attention.heads = 4;
  attention.attention.bias = true;
  wide.dense.units = tokens;
  network.layers.insert(network.layers.begin() + 1, {attention, wide});
  const StagePlan plan = planOf(network, positions, tokens);
  CHECK(plan.parameters() > 5 * panel_values);
  CHECK(plan.halfScratch(rows) < panel_values + 4 * width);
  // Table, queries with keys and values, wide, inside, and the table again: two panels each.
  Values text(rows * positions);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<double>((i * 977 + 40) % tokens);
  const Matrix in = matrixOf(rows, positions, text);
  const Values grad_out = normals(rows * positions * tokens, 3);
  Stage halves(plan, start(plan), rows, {Precision::bf16, {}}), reals(plan, start(plan), rows);
  assign(reals.parameters(), stored(halves.trained().parameters));
  for (const int times : {1, 2}) {
    const Passed own = pass(halves, in, grad_out, times), expected = pass(reals, in, grad_out, times);
    CHECK(relativeError(own.output, expected.output) < 0.02);
    for (const StageTensor& tensor : halves.tensors()) {
      INFO(times << " times, " << tensor.layer << " " << tensor.name);
      const auto partOf = [&](const Values& values) {
        return Values(values.begin() + tensor.offset, values.begin() + tensor.offset + tensor.size);
      };
      CHECK(relativeError(partOf(own.gradients), partOf(expected.gradients)) < 0.03);
    }
  }
}

namespace {

/// Some values in 16 bits, in memory of their own.
class Halves {
 public:
  Halves(Precision precision, const Values& values)
      : _reals(vectorOf(values)), _bytes("partita::test::halves", values.size() * 2),
        _span(precision, _bytes.data(), static_cast<std::int64_t>(values.size())) {
    convert(space, _reals, _span);
  }
  const TypedSpan& span() const { return _span; }

 private:
  Vector _reals;
  Kokkos::View<char*, MemSpace> _bytes;
  TypedSpan _span;
};

} // namespace

/// As devices do it.
TEST_CASE("Gradients of 16 bits are the same when their rows are copied to aligned places", "[half]") {
  constexpr std::int64_t fan_in = 24, padding = 8;
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    for (const auto& [samples, units] :
         {std::pair<std::int64_t, std::int64_t>{5, 47}, {8200, 301}}) { // the latter in parts, on hosts
      const Halves values(precision, normals(units * fan_in, 1)), in(precision, normals(samples * fan_in, 2)),
          grad(precision, normals(samples * units, 3));
      const TypedMatrix inputs(in.span(), samples, fan_in), grads(grad.span(), samples, units);
      const auto room = static_cast<std::size_t>(
          std::max({halfOperand(samples, units, padding), units * fan_in, samples * (units + fan_in)}));
      const Vector scratch("partita::test::scratch", room), gradient_scratch("partita::test::scratch", room);
      Values found[2], inputs_found[2], sums_found[2];
      for (const bool padded : {false, true}) {
        const Halves gradient(precision, Values(units * fan_in)),
            sums(precision, Values(static_cast<std::size_t>(units))),
            grad_in(precision, Values(static_cast<std::size_t>(samples * fan_in)));
        const Weights weights(values.span(), gradient.span(), units, fan_in, scratch.data(),
                              gradient_scratch.data(), padded ? padding : 1);
        weights.addGradient(space, false, inputs, grads, sums.span());
        weights.inputGradient(space, grads, {grad_in.span(), samples, fan_in}, true);
        found[padded ? 1 : 0] = stored(gradient.span());
        inputs_found[padded ? 1 : 0] = stored(grad_in.span());
        sums_found[padded ? 1 : 0] = stored(sums.span());
      }
      INFO(samples << " samples, precision " << static_cast<int>(precision));
      CHECK(relativeError(found[1], found[0]) < 0.01);
      CHECK(relativeError(inputs_found[1], inputs_found[0]) < 0.01);
      CHECK(relativeError(sums_found[1], sums_found[0]) < 0.01);
      const Matrix expected =
          makeMatrix("partita::test::expected", units, fan_in); // rows are not always copied
      gemm(space, Op::transpose, Op::none, Real(1), matrixOf(samples, units, stored(grad.span())),
           matrixOf(samples, fan_in, stored(in.span())), Real(0), expected);
      CHECK(relativeError(found[0], valuesOf(expected)) < 0.01);
    }
  }
}

TEST_CASE("Operands with more values than a panel are rounded part by part", "[half]") {
  constexpr std::int64_t positions = 1640, inputs = 320, units = 300;
  if (!plans_for_device) {
    CHECK(halfColumns(rows * positions, inputs) == 192);
    CHECK(halfColumns(rows * positions, units) == 192);
  }
  CHECK(halfColumns(0, units) == units);
  CHECK(halfColumns(panel_values, units) == 64);
  constexpr std::int64_t wide = 4 * panel_values + 7, padding = 8; // one row has more values than a panel
  CHECK(3 * halfColumns(3, wide) < wide);
  CHECK(2 * halfOperand(3, wide, padding) == wide + 1);
  CHECK(halfOperand(0, wide, padding) == 0);
  RunConfig config;
  config.network = denseNetwork({}, Activation::relu);
  const StagePlan plan =
      planPartition(config, planNetwork(config.network, {positions, inputs}, units), units).stages.front();
  const Matrix in = matrixOf(rows, positions * inputs, normals(rows * positions * inputs, 2));
  roundTo(space, Precision::bf16, in);
  const Values grad_out = normals(rows * positions * units, 3);
  Stage halves(plan, start(plan), rows, {Precision::bf16, {}}), reals(plan, start(plan), rows);
  assign(reals.parameters(), stored(halves.trained().parameters));
  for (const int times : {1, 2}) {
    const Passed own = pass(halves, in, grad_out, times), expected = pass(reals, in, grad_out, times);
    CHECK(relativeError(own.output, expected.output) < 5e-3);
    CHECK(relativeError(own.gradients, expected.gradients) < 5e-3);
    CHECK(relativeError(own.input_gradient, expected.input_gradient) < 5e-3);
  }
}

} // namespace partita::test::nn_packed
