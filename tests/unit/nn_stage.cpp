#include "partita/nn/stage.hpp"
#include "partita/plan/network_plan.hpp"

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"
#include "support/small_model.hpp"

namespace partita::test::nn_stage {

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t inputs = 30, classes = 8, rows = 10;

Partition cutInto(std::int64_t stages, LabelKind labels, Activation activation = Activation::relu) {
  RunConfig config = smallConfig(stages);
  config.network = denseNetwork({24, 20, 16}, activation);
  config.strategy.sil.labels = labels;
  return planPartition(config, planNetwork(config.network, {inputs}, classes), classes);
}

Stage makeStage(const StagePlan& plan) {
  return Stage(plan, Stage::initialValues(plan, 3), rows);
}

/// Forward pass through all stages of a partition, with weights from the seed.
Values joinedOutput(const Partition& partition, const Values& in, std::int64_t batch = rows) {
  std::vector<Stage> stages;
  std::vector<Tape> tapes;
  const Matrix first = matrixOf(batch, inputs, in);
  TypedMatrix flow = first;
  for (const StagePlan& plan : partition.stages) {
    stages.push_back(makeStage(plan));
    tapes.push_back(stages.back().makeTape(rows));
  }
  for (std::size_t s = 0; s < stages.size(); ++s) flow = stages[s].forward(space, {}, flow, tapes[s]);
  return valuesOf(flow.real());
}

} // namespace

TEST_CASE("Stages in a row are the whole network, bit for bit", "[nn]") {
  const Values in = normals(rows * inputs, 1);
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::tanh}) {
    const Values whole = joinedOutput(cutInto(1, LabelKind::orthogonal, activation), in);
    CHECK(whole.size() == rows * classes);
    for (const LabelKind labels : {LabelKind::orthogonal, LabelKind::uniform}) // matched before and after
      for (const std::int64_t stages : {2, 3, 4})
        CHECK(joinedOutput(cutInto(stages, labels, activation), in) == whole);
  }
}

TEST_CASE("A row's output does not depend on the rows beside it", "[nn]") {
  const Partition partition = cutInto(1, LabelKind::orthogonal);
  const Values in = normals(rows * inputs, 1), whole = joinedOutput(partition, in);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Values alone = joinedOutput(partition, {in.begin() + i * inputs, in.begin() + (i + 1) * inputs}, 1);
    CHECK(relativeError(alone, {whole.begin() + i * classes, whole.begin() + (i + 1) * classes}) < 1e-5);
  }
}

TEST_CASE("Starting weights do not depend on the cuts", "[nn]") {
  const StagePlan whole = cutInto(1, LabelKind::orthogonal).stages[0];
  std::vector<Real> joined;
  for (const StagePlan& plan : cutInto(3, LabelKind::orthogonal).stages) {
    const auto values = Stage::initialValues(plan, 3);
    joined.insert(joined.end(), values.begin(), values.end());
  }
  CHECK(joined == Stage::initialValues(whole, 3));
  CHECK(joined != Stage::initialValues(whole, 4));
}

TEST_CASE("Cut initialisation changes the last layer in front of a cut and nothing else", "[nn]") {
  RunConfig config = smallConfig(2);
  const SmallModel cut(config, inputs, classes);
  config.strategy.sil.initialisation = CutInitialisation::he;
  const SmallModel he(config, inputs, classes);
  CHECK(valuesOf(cut.stages[1]->stage.parameters()) == valuesOf(he.stages[1]->stage.parameters()));

  const Stage& stage = cut.stages[0]->stage;
  const Values changed = valuesOf(stage.parameters()), plain = valuesOf(he.stages[0]->stage.parameters());
  const StageTensor bias = stage.tensors().back(), weight = stage.tensors()[stage.tensors().size() - 2];
  REQUIRE(bias.name == "bias");
  for (std::int64_t i = 0; i < weight.offset; ++i)
    REQUIRE(changed[static_cast<std::size_t>(i)] == plain[static_cast<std::size_t>(i)]);
  for (std::int64_t i = weight.offset; i < weight.offset + weight.size; ++i)
    REQUIRE(changed[static_cast<std::size_t>(i)] == Approx(0.1 * plain[static_cast<std::size_t>(i)]));
  for (std::int64_t j = 0; j < bias.size; ++j)
    REQUIRE(changed[static_cast<std::size_t>(bias.offset + j)] ==
            Approx(cut.stages[0]->labels.mean[static_cast<std::size_t>(j)]).margin(1e-6));
}

TEST_CASE("The tensors of a stage fill its flat buffer in layer order, but for gaps", "[nn]") {
  const Stage stage = makeStage(cutInto(2, LabelKind::orthogonal).stages[1]);
  std::int64_t offset = 0;
  for (const StageTensor& tensor : stage.tensors()) {
    CHECK(tensor.offset == offset);
    offset += (tensor.size + 63) / 64 * 64;
  }
  CHECK(offset == stage.plan().storedValues());
  CHECK(stage.parameters().extent(0) == static_cast<std::size_t>(offset));
  CHECK(stage.gradients().extent(0) == static_cast<std::size_t>(offset));
  CHECK(stage.tensors()[0].name == "weight");
  CHECK(stage.tensors()[0].extents.size() == 2);
  CHECK(stage.tensors()[1].name == "bias");
}

TEST_CASE("Gradients become ready from the back, in ranges that touch, and stay as they are", "[nn]") {
  Stage stage = makeStage(cutInto(1, LabelKind::orthogonal).stages[0]);
  Tape tape = stage.makeTape(rows);
  const Matrix in = matrixOf(rows, inputs, normals(rows * inputs, 1));
  stage.forward(space, {}, in, tape);
  const Matrix grad = stage.outputGradient(rows);
  assign(grad, normals(rows * classes, 2));
  std::int64_t expected_end = stage.plan().storedValues();
  int calls = 0;
  Values ready(static_cast<std::size_t>(expected_end));
  const Matrix grad_in = makeMatrix("partita::test::grad_in", rows, inputs);
  Kokkos::deep_copy(stage.gradients(), Real(-7));
  stage.backward(space, {}, in, tape, grad, grad_in, [&](std::int64_t begin, std::int64_t end) {
    CHECK(end == expected_end);
    CHECK(begin < end);
    expected_end = begin;
    ++calls;
    const Values now = valuesOf(stage.gradients());
    std::copy(now.begin() + begin, now.begin() + end, ready.begin() + begin);
  });
  CHECK(expected_end == 0);
  CHECK(calls == 4);
  CHECK(ready == valuesOf(stage.gradients()));
}

TEST_CASE("A forward pass asks for parameters layer by layer, before it reads them", "[nn]") {
  const StagePlan plan = cutInto(1, LabelKind::orthogonal).stages[0];
  const Matrix in = matrixOf(rows, inputs, normals(rows * inputs, 1));
  Stage stage = makeStage(plan), late = makeStage(plan);
  Tape tape = stage.makeTape(rows);
  const Values expected = valuesOf(stage.forward(space, {}, in, tape).real());
  Kokkos::deep_copy(late.parameters(), Real(0));
  std::int64_t expected_begin = 0;
  late.setParametersWanted([&](const ExecSpace&, std::int64_t begin, std::int64_t end) {
    CHECK(begin == expected_begin);
    expected_begin = end;
    const auto range = std::pair(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
    Kokkos::deep_copy(Kokkos::subview(late.parameters(), range), Kokkos::subview(stage.parameters(), range));
  });
  CHECK(valuesOf(late.forward(space, {}, in, tape).real()) == expected);
  CHECK(expected_begin == plan.storedValues());
  late.setParametersWanted({});
  expected_begin = 0;
  late.forward(space, {}, in, tape);
  CHECK(expected_begin == 0);
}

TEST_CASE("Two batches can be under way on two tapes", "[nn]") {
  Stage stage = makeStage(cutInto(1, LabelKind::orthogonal).stages[0]);
  const Matrix in = matrixOf(rows, inputs, normals(rows * inputs, 1)),
               other = matrixOf(rows, inputs, normals(rows * inputs, 2));
  const auto gradients = [&](bool interrupted) {
    Tape first = stage.makeTape(rows), second = stage.makeTape(rows);
    stage.forward(space, {}, in, first);
    if (interrupted) stage.forward(space, {}, other, second);
    const Matrix grad = stage.outputGradient(rows);
    assign(grad, normals(rows * classes, 3));
    stage.backward(space, {}, in, first, grad, Matrix());
    return valuesOf(stage.gradients());
  };
  CHECK(gradients(true) == gradients(false));
}

} // namespace partita::test::nn_stage
