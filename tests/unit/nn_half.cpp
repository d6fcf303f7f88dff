#include "partita/nn/stage.hpp"
#include "partita/plan/network_plan.hpp"

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"
#include "support/small_model.hpp"
#include "support/stored_values.hpp"

namespace partita::test::nn_half {

/// Stages whose activations are stored in 16 bits.

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t rows = 5;
constexpr Precision halves[] = {Precision::bf16, Precision::fp16};

LayerSpec layerOf(const std::string& type) {
  LayerSpec spec;
  spec.type = type;
  return spec;
}

LayerSpec denseOf(std::int64_t units, Activation activation) {
  LayerSpec spec = layerOf("dense");
  spec.dense.units = units;
  spec.activation = activation;
  return spec;
}

/// Of dense layers and all others that work element by element.
NetworkSection elementwise(Activation activation, bool recompute) {
  LayerSpec alone = layerOf("activation"), residual = layerOf("residual"), block = layerOf("block");
  alone.activation = residual.activation = activation;
  residual.layers = {denseOf(15, activation), layerOf("dropout"), denseOf(13, Activation::identity)};
  residual.shortcut = {denseOf(13, Activation::identity)};
  block.layers = {denseOf(9, activation), alone};
  residual.recompute = block.recompute = recompute;
  LayerSpec same = residual;
  same.shortcut.clear();
  NetworkSection network;
  network.layers = {denseOf(11, activation),         residual, same, block, layerOf("flatten"),
                    denseOf(4, Activation::identity)};
  return network;
}

NetworkSection transformer(bool recompute) {
  LayerSpec embedding = layerOf("embedding"), attention = layerOf("attention"), mixing = layerOf("residual"),
            thinking = layerOf("residual"), head = layerOf("dense");
  embedding.embedding.width = 12;
  embedding.embedding.positions = true;
  attention.attention.heads = 3;
  attention.attention.bias = true;
  mixing.layers = {layerOf("layer-norm"), attention};
  thinking.layers = {layerOf("rms-norm"), denseOf(31, Activation::gelu), denseOf(12, Activation::identity)};
  mixing.recompute = thinking.recompute = recompute;
  head.dense.tied = true;
  head.dense.bias = false;
  NetworkSection network;
  network.layers = {embedding, mixing, thinking, layerOf("layer-norm"), head};
  return network;
}

LayerSpec convolutionOf(std::int64_t channels, Activation activation, std::int64_t groups = 1) {
  LayerSpec spec = layerOf("conv2d");
  spec.convolution.channels = channels;
  spec.convolution.kernel = {{3}};
  spec.convolution.padding = {{1}};
  spec.convolution.groups = groups;
  spec.activation = activation;
  return spec;
}

/// With convolutions that a library computes from 16-bit values, and others.
NetworkSection images(bool recompute) {
  LayerSpec residual = layerOf("residual"), norm = layerOf("batch-norm"), smooth = layerOf("group-norm"),
            largest = layerOf("max-pool"), mean = layerOf("average-pool"), pointwise = layerOf("conv2d");
  norm.activation = residual.activation = Activation::relu;
  smooth.group_norm.groups = 4;
  largest.pool.kernel = largest.pool.stride = mean.pool.kernel = {{2}};
  mean.pool.stride = {{1}};
  pointwise.convolution.channels = 16;
  pointwise.convolution.kernel = {{1}};
  residual.layers = {convolutionOf(16, Activation::gelu), norm, convolutionOf(16, Activation::identity, 2)};
  residual.shortcut = {pointwise};
  residual.recompute = recompute;
  NetworkSection network;
  network.layers = {convolutionOf(16, Activation::relu), residual, largest,         smooth,
                    convolutionOf(18, Activation::tanh), mean,     layerOf("dense")};
  return network;
}

struct Case {
  NetworkSection network;
  Shape in;
  std::int64_t classes;
  bool tokens = false;
  std::int64_t inputs() const { return partita::valuesOf(in); }
};

std::vector<Case> cases(bool recompute) {
  std::vector<Case> all;
  for (const Activation activation :
       {Activation::relu, Activation::leaky_relu, Activation::gelu, Activation::tanh, Activation::silu})
    all.push_back({elementwise(activation, recompute), {10}, 4});
  all.push_back({images(recompute), {3, 10, 8}, 5});
  all.push_back({transformer(recompute), {7}, 17, true});
  return all;
}

std::vector<StagePlan> plansOf(const Case& c, Precision precision, std::vector<std::int64_t> cuts = {}) {
  RunConfig config;
  config.network = c.network;
  config.run.precision = precision;
  if (!cuts.empty()) {
    config.strategy.kind = StrategyKind::pipeline;
    config.strategy.stages = static_cast<std::int64_t>(cuts.size()) + 1;
    config.strategy.cut_rule = CutRule::list;
    config.strategy.cuts = std::move(cuts);
  }
  return planPartition(config, planNetwork(config.network, c.in, c.classes), c.classes).stages;
}

Matrix inputOf(const Case& c, Precision precision) {
  Values values = normals(rows * c.inputs(), 2);
  for (std::size_t i = 0; c.tokens && i < values.size(); ++i)
    values[i] = static_cast<double>(i * i % static_cast<std::size_t>(c.classes));
  const Matrix in = matrixOf(rows, c.inputs(), values);
  if (!c.tokens) roundTo(space, precision, in);
  return in;
}

Values stored(const TypedSpan& numbers) {
  const Vector values("partita::test::stored", static_cast<std::size_t>(numbers.size));
  convert(space, numbers, values);
  return valuesOf(values);
}

struct Passed {
  Values output, gradients;
};

/// Two passes through stages in a row, whose gradients are added up.
Passed pass(std::vector<Stage>& stages, const Matrix& in) {
  std::vector<Tape> tapes;
  for (const Stage& stage : stages) tapes.push_back(stage.makeTape(rows));
  Passed passed;
  for (const bool accumulate : {false, true}) {
    Pass pass;
    pass.step = 3;
    pass.accumulate = accumulate;
    std::vector<TypedMatrix> flow{in};
    for (std::size_t s = 0; s < stages.size(); ++s)
      flow.push_back(stages[s].forward(space, pass, flow.back(), tapes[s]));
    TypedMatrix grad = stages.back().gradientFor(flow.back());
    copyValues(space, matrixOf(rows, grad.columns, normals(grad.size(), 3)), grad);
    std::vector<TypedRows> memory;
    for (std::size_t s = stages.size(); s-- > 0;) {
      TypedMatrix before;
      if (s > 0) {
        memory.emplace_back("partita::test::before", stages[s].inputPrecision(), rows, flow[s].columns);
        before = memory.back().top(rows);
      }
      stages[s].backward(space, pass, flow[s], tapes[s], grad, before);
      grad = before;
    }
    passed.output = stored(flow.back().values());
  }
  for (const Stage& stage : stages)
    for (const StageTensor& tensor : stage.tensors()) {
      const Values own = stored(stage.trained().gradients.part(tensor.offset, tensor.offset + tensor.size));
      passed.gradients.insert(passed.gradients.end(), own.begin(), own.end());
    }
  return passed;
}

std::vector<Stage> stagesOf(const std::vector<StagePlan>& plans, Precision precision) {
  std::vector<Stage> stages;
  for (const StagePlan& plan : plans)
    stages.emplace_back(plan, Stage::initialValues(plan, 1), rows, StageStorage{precision, {}});
  return stages;
}

} // namespace

TEST_CASE("A stage with activations of 16 bits equals one that rounds floats", "[half]") {
  for (const Case& c : cases(false)) {
    for (const Precision precision : halves) {
      std::vector<Stage> own = stagesOf(plansOf(c, precision), precision),
                         rounding = stagesOf(plansOf(c, Precision::single), precision);
      const Matrix in = inputOf(c, precision);
      const Passed found = pass(own, in), expected = pass(rounding, in);
      INFO("activation " << static_cast<int>(c.network.layers[0].activation) << ", extents " << c.in.size()
                         << ", tokens " << c.tokens << ", precision " << static_cast<int>(precision));
      // Sums before activations, and what attention saves, are rounded once more.
      const double tolerance = precision == Precision::bf16 ? 0.03 : 0.004;
      CHECK(relativeError(found.output, expected.output) < tolerance);
      CHECK(relativeError(found.gradients, expected.gradients) < tolerance);
    }
  }
}

TEST_CASE("Cuts and repeated forward passes change no bit of 16-bit activations", "[half]") {
  const std::vector<Case> kept = cases(false), repeated = cases(true);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    for (const Precision precision : halves) {
      const Matrix in = inputOf(kept[i], precision);
      std::vector<Stage> whole = stagesOf(plansOf(kept[i], precision), precision);
      const Passed expected = pass(whole, in);
      const auto check = [&](const std::vector<StagePlan>& plans) {
        std::vector<Stage> stages = stagesOf(plans, precision);
        const Passed found = pass(stages, in);
        CHECK(found.output == expected.output);
        CHECK(found.gradients == expected.gradients);
      };
      INFO("network " << i << ", precision " << static_cast<int>(precision));
      check(plansOf(repeated[i], precision));
      if (kept[i].tokens) continue; // its head is tied
      check(plansOf(kept[i], precision, {1}));
      check(plansOf(kept[i], precision, {2, 3}));
      check(plansOf(repeated[i], precision, {3, 4}));
    }
  }
}

TEST_CASE("Activations of 16 bits and their gradients take half the memory", "[half][memory]") {
  const Case wide{denseNetwork({640, 320, 640}, Activation::relu), {640}, 10};
  const StagePlan half = plansOf(wide, Precision::bf16).front(),
                  real = plansOf(wide, Precision::single).front();
  CHECK(real.keptValues() == 1610);
  CHECK(half.keptValues() == 810); // logits stay `Real`
  CHECK(real.widest() == 640);
  CHECK(half.widest() == 320);
  const StagePlan second = plansOf(wide, Precision::bf16, {2}).back(),
                  first = plansOf(wide, Precision::bf16, {2}).front();
  CHECK(first.keptValues() == 480);
  CHECK(first.widest() == 320); // no loss reads its output, so there is no gradient in `Real`
  CHECK_FALSE(first.copiesOutput());
  CHECK(second.keptValues() == 330);
  CHECK_FALSE(second.copiesInput());
  const Stage stage = std::move(stagesOf({half}, Precision::bf16).front());
  const Tape tape = stage.makeTape(rows);
  for (std::size_t i = 0; i + 1 < tape.outputs.size(); ++i) CHECK(tape.outputs[i].half());
  CHECK_FALSE(tape.outputs.back().half());
  // Those of tokens do not.
  const StagePlan tokens = plansOf(cases(false).back(), Precision::bf16).front();
  CHECK(tokens.layers.back().outputPrecision() == Precision::bf16);
  CHECK_FALSE(tokens.copiesOutput());
  CHECK(stagesOf({tokens}, Precision::bf16).front().makeTape(rows).outputs.back().half());
  RunConfig parts;
  parts.network = wide.network;
  parts.run.precision = Precision::bf16;
  parts.strategy.parts = 2; // which exchange floats
  CHECK(planPartition(parts, planNetwork(parts.network, wide.in, 10), 10).stages.front().keptValues() ==
        real.keptValues());
}

TEST_CASE("Tensors inside a group begin at multiples of 16 bytes, for any number of rows", "[half][memory]") {
  std::int64_t tensors = 0;
  const Vector memory("partita::test::memory", 1); // addresses alone are compared
  const auto check = [&](const void* values) {
    CHECK((static_cast<const char*>(values) - reinterpret_cast<const char*>(memory.data())) % 16 == 0);
    ++tensors;
  };
  for (const Case& tried : cases(false)) {
    for (const Precision precision : {Precision::single, Precision::bf16}) {
      const StagePlan plan = plansOf(tried, precision).front();
      for (const LayerPlan& group : plan.layers) {
        if (!group.group()) continue;
        Real* next = memory.data();
        const Tape tape = LayerChain(group.body).tapeIn(next, 3, TypedMatrix());
        for (std::size_t i = 0; i < tape.outputs.size(); ++i) {
          check(tape.outputs[i].data);
          check(tape.saved[i].data());
        }
        check(next);
        CHECK(next - memory.data() <= 3 * (group.savedValues() + alignedRoom(group.outputRoom())));
      }
    }
  }
  CHECK(tensors > 50);
}

TEST_CASE("The gradients of a convolution over no rows are zero", "[half]") {
  for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
    for (const std::int64_t groups : {1, 2}) {
      INFO("groups " << groups << ", precision " << static_cast<int>(precision));
      NetworkSection network;
      network.layers = {convolutionOf(16, Activation::relu, groups), layerOf("dense")};
      StagePlan stage;
      stage.layers = {plansOf({network, {2, 6, 5}, 5}, precision).front().layers.front()};
      const LayerPlan& plan = stage.layers.front();
      const std::vector<Real> start = Stage::initialValues(stage, 1);
      const Vector parameters = vectorOf(Values(start.begin(), start.end()));
      const Matrix memory = makeMatrix("partita::test::rows", 1, std::max(plan.inputs(), plan.outputs())),
                   saved = makeMatrix("partita::test::saved", 0, plan.savedValues());
      const TypedMatrix in(precision, memory.data(), 0, plan.inputs()),
          out(precision, memory.data(), 0, plan.outputs());
      Pass pass;
      pass.work = Vector("partita::test::work", static_cast<std::size_t>(plan.workValues(1)));
      for (const bool accumulate : {false, true}) {
        const Vector gradients = vectorOf(Values(start.size(), 3.0));
        const auto layer = makeLayer(plan);
        layer->bind({parameters, gradients});
        pass.accumulate = accumulate;
        layer->backward(space, pass, in, out, saved, out, {});
        const Values found = packedOf(stage.layers, valuesOf(gradients));
        CHECK(found == Values(found.size(), accumulate ? 3.0 : 0.0));
      }
    }
  }
}

TEST_CASE("Parameters that are set from a place on are rounded from there", "[half]") {
  constexpr std::int64_t begin = 16, count = 40;
  for (const Precision precision : halves) {
    const std::vector<StagePlan> plans = plansOf(cases(false).front(), precision);
    Stage stage = std::move(stagesOf(plans, precision).front());
    Values expected = stored(stage.trained().parameters);
    const Matrix values = matrixOf(1, count, normals(count, 4));
    stage.setParameters(space, begin, Vector(values.data(), count));
    roundTo(space, precision, values);
    const Values rounded = valuesOf(values);
    std::copy(rounded.begin(), rounded.end(), expected.begin() + begin);
    CHECK(stored(stage.trained().parameters) == expected);
  }
}

TEST_CASE("A stage's activations and parameters have the same precision", "[half]") {
  const StagePlan plan = plansOf(cases(false).front(), Precision::bf16).front();
  CHECK_THROWS_AS(Stage(plan, Stage::initialValues(plan, 1), rows, {Precision::fp16, {}}), InternalError);
  CHECK_THROWS_AS(Stage(plan, Stage::initialValues(plan, 1), rows), InternalError);
}

} // namespace partita::test::nn_half
