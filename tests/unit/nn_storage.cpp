#include "partita/config/deck.hpp"
#include "partita/core/aligned.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/stage_trainer.hpp"

#include <filesystem>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"
#include "support/small_model.hpp"
#include "support/source_directory.hpp"

namespace partita::test::nn_storage {

/// The memory in which the tensors of a stage lie.

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t rows = 6, classes = 5;

/// A convolution, a batch norm, which has statistics, and two dense layers.
RunConfig mixedConfig() {
  RunConfig config = smallConfig(1);
  LayerSpec convolution, norm, dense;
  convolution.type = "conv2d";
  convolution.convolution.channels = 3;
  convolution.convolution.kernel = {{3}};
  norm.type = "batch-norm";
  norm.activation = Activation::relu;
  dense.dense.units = 7;
  dense.activation = Activation::tanh;
  config.network.layers = {convolution, norm, dense, LayerSpec()};
  config.training.batch = rows;
  return config;
}
const Shape input{2, 5, 6};

StagePlan mixedStage() {
  const RunConfig config = mixedConfig();
  return planPartition(config, planNetwork(config.network, input, classes), classes).stages.front();
}

struct Result {
  Values masters, gradients, statistics;
  bool operator==(const Result& other) const {
    return masters == other.masters && gradients == other.gradients && statistics == other.statistics;
  }
};

Values realsOf(const TypedSpan& numbers) {
  const Vector values("partita::test::reals", static_cast<std::size_t>(numbers.size));
  convert(space, numbers, values);
  return valuesOf(values);
}

/// Five steps of AdamW.
Result train(Stage& stage) {
  OptimiserSection section;
  section.kind = OptimiserKind::adamw;
  section.weight_decay = 0.1;
  const auto optimiser = makeOptimiser(section, stage.masters().size());
  Tape tape = stage.makeTape(rows);
  const Matrix in = matrixOf(rows, stage.inputs(), normals(rows * stage.inputs(), 1));
  for (int step = 0; step < 5; ++step) {
    stage.forward(space, {}, in, tape);
    const Matrix grad = stage.outputGradient(rows);
    assign(grad, normals(rows * stage.outputs(), 2));
    stage.backward(space, {}, in, tape, grad, Matrix());
    optimiser->step(space, stage.trained(), 0.01, Vector());
  }
  const ParameterBuffers trained = stage.trained();
  return {valuesOf(stage.masters().device()), realsOf(trained.gradients), valuesOf(stage.statistics())};
}

/// The middle third of a larger vector; the values around it must stay 17.
class Middle {
 public:
  Middle(std::int64_t values, Precision precision)
      : _precision(precision), _values(values),
        _all(makeAligned<decltype(_all)>("partita::test::all", 3 * values * bytesOf(precision))) {
    Kokkos::deep_copy(_all, '\21');
  }
  TypedSpan numbers() const {
    return TypedSpan(_precision, _all.data(), 3 * _values).part(_values, 2 * _values);
  }
  bool onlyMiddleChanged() const {
    const Values all = valuesOf(_all);
    const std::size_t third = all.size() / 3;
    for (std::size_t i = 0; i < third; ++i)
      if (all[i] != 17.0 || all[2 * third + i] != 17.0) return false;
    return realsOf(numbers()) != Values(static_cast<std::size_t>(_values), 17.0);
  }
  int owners() const { return static_cast<int>(_all.use_count()); }

 private:
  Precision _precision;
  std::int64_t _values;
  Kokkos::View<char*, MemSpace> _all;
};

} // namespace

TEST_CASE("A stage in memory that it is given trains as one that allocates, bit for bit", "[nn]") {
  const StagePlan plan = mixedStage();
  const std::vector<Real> start = Stage::initialValues(plan, 1);
  for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
    INFO("precision " << static_cast<int>(precision));
    Stage own(plan, start, rows, {precision, {}, {}});
    const Result expected = train(own);
    const Middle parameters(plan.storedValues(), precision), gradients(plan.storedValues(), precision),
        statistics(plan.statistics(), Precision::single);
    for (int again = 0; again < 2; ++again) { // also in memory that is not zero
      Stage given(plan, start, rows,
                  {precision, {}, {parameters.numbers(), gradients.numbers(), statistics.numbers()}});
      CHECK(train(given) == expected);
      CHECK(given.trained().parameters.data == parameters.numbers().data);
      CHECK(given.trained().gradients.data == gradients.numbers().data);
      CHECK(given.statistics().data() == statistics.numbers().data);
    }
    for (const Middle* memory : {&parameters, &gradients, &statistics}) {
      CHECK(memory->onlyMiddleChanged());
      CHECK(memory->owners() == 1);
    }
  }
}

TEST_CASE("Memory of another size or precision than a stage needs is refused", "[nn]") {
  const StagePlan plan = mixedStage();
  const std::vector<Real> start = Stage::initialValues(plan, 1);
  const Middle fits(plan.storedValues(), Precision::single),
      shorter(plan.storedValues() - 1, Precision::single), halves(plan.storedValues(), Precision::bf16),
      larger(2 * plan.storedValues(), Precision::single),
      statistics(plan.statistics() + 1, Precision::single);
  const auto refused = [&](const GivenMemory& given) {
    CHECK_THROWS_AS(Stage(plan, start, rows, {Precision::single, {}, given}), InternalError);
  };
  refused({shorter.numbers(), {}, {}});
  refused({fits.numbers(), shorter.numbers(), {}});
  refused({halves.numbers(), {}, {}});
  refused({{}, {}, statistics.numbers()});
  refused({larger.numbers().part(1, 1 + plan.storedValues()), {}, {}}); // not aligned
  CHECK_NOTHROW(Stage(plan, start, rows, {Precision::single, {}, {fits.numbers(), {}, {}}}));
}

namespace {

/// Each buffer of the same length as the parameters, with the bytes per value.
struct Buffer {
  std::string name;
  const char* data; ///< maybe on a device
  std::int64_t value_bytes;
  std::vector<char> copy; ///< for the host
};

std::vector<Buffer> buffersOf(const Stage& stage, const Optimiser& optimiser) {
  const auto numbers = [](const std::string& name, const TypedSpan& values) {
    const Kokkos::View<char*, MemSpace> bytes(static_cast<char*>(values.data),
                                              static_cast<std::size_t>(values.bytes()));
    const auto host = Kokkos::create_mirror_view_and_copy(HostSpace(), bytes);
    return Buffer{name, bytes.data(), bytesOf(values.precision), {host.data(), host.data() + host.size()}};
  };
  const auto stored = [&](const std::string& name, const StoredVector& values) {
    if (!values.offloaded()) return numbers(name, values.device());
    const auto* begin = reinterpret_cast<const char*>(values.onHost());
    return Buffer{name, begin, sizeof(Real), {begin, begin + values.size() * bytesOf(Precision::single)}};
  };
  std::vector<Buffer> buffers{numbers("parameters", stage.trained().parameters),
                              numbers("gradients", stage.trained().gradients),
                              stored("masters", stage.masters())};
  for (const Optimiser::State& state : optimiser.state()) buffers.push_back(stored(state.name, state.values));
  return buffers;
}

void checkAlignment(const Stage& stage, const Optimiser& optimiser) {
  for (const Buffer& buffer : buffersOf(stage, optimiser)) {
    for (const StageTensor& tensor : stage.tensors()) {
      INFO(buffer.name << " of " << tensor.layer << ", " << tensor.name);
      CHECK(reinterpret_cast<std::uintptr_t>(buffer.data + tensor.offset * buffer.value_bytes) % 128 == 0);
    }
  }
}

/// Checks that every byte between tensors is zero.
void checkGaps(const Stage& stage, const Optimiser& optimiser) {
  for (const Buffer& buffer : buffersOf(stage, optimiser)) {
    INFO(buffer.name);
    for (const StageTensor& tensor : stage.tensors()) {
      const auto begin = buffer.copy.begin() + (tensor.offset + tensor.size) * buffer.value_bytes,
                 end = buffer.copy.begin() + (tensor.offset + storedSize(tensor.size)) * buffer.value_bytes;
      CHECK(std::all_of(begin, end, [](char byte) { return byte == 0; }));
    }
  }
}

OptimiserSection placed(OptimiserSection section, Offload offload) {
  section.offload = offload;
  section.offload_directory = std::filesystem::temp_directory_path().string();
  section.offload_bucket = 100;
  return section;
}

/// The input shape for the network of a deck, whose first layer determines the kind of data.
Shape inputOf(const RunConfig& config) {
  const DataSection& data = config.data;
  if (data.depth > 0) return {data.channels, data.depth, data.image_size, data.image_size};
  const std::string& type = config.network.layers.front().type;
  if (type == "embedding") return {config.data.sequence};
  return type == "dense" ? Shape{784} : Shape{3, 224, 224};
}

} // namespace

TEST_CASE("Every tensor of every deck begins at a multiple of 128 bytes", "[nn][sweep]") {
  constexpr std::int64_t odd_classes = 47, most = 1000000;
  int decks = 0, made = 0;
  for (const auto& entry : std::filesystem::directory_iterator(sourceDirectory() + "/input-decks")) {
    INFO(entry.path().string());
    const RunConfig config = effective(loadDeck(entry.path().string(), {}));
    const Partition partition =
        planPartition(config, planNetwork(config.network, inputOf(config), odd_classes), odd_classes);
    ++decks;
    for (const StagePlan& plan : partition.stages) {
      std::int64_t end = 0, values = 0;
      for (const StageTensor& tensor : parameterTensors(plan.layers)) {
        CHECK(tensor.offset % 64 == 0);
        CHECK(tensor.offset >= end);
        end = tensor.offset + tensor.size;
        values += tensor.size;
      }
      CHECK(end <= plan.storedValues());
      CHECK(values == plan.parameters());
      if (plan.storedValues() > most || plan.workValues(1) > 100 * most) continue;
      ++made;
      for (const Precision precision : {Precision::single, Precision::bf16}) {
        const Stage stage(plan, Stage::initialValues(plan, 1), 1, {precision, {}, {}});
        checkAlignment(stage, *makeOptimiser({}, plan.storedValues()));
      }
    }
  }
  CHECK(decks >= 17);
  CHECK(made >= 20);
}

TEST_CASE("What fills the gaps between tensors stays zero while a stage learns", "[nn]") {
  std::vector<OptimiserSection> optimisers(5);
  optimisers[0].kind = OptimiserKind::sgd;
  optimisers[1].kind = OptimiserKind::sgd;
  optimisers[1].momentum = 0.9;
  optimisers[1].nesterov = true;
  optimisers[2].kind = OptimiserKind::adam;
  optimisers[3].kind = OptimiserKind::adamw;
  optimisers[4].kind = OptimiserKind::adam;
  optimisers[4].clip_norm = 0.1;
  for (const OptimiserSection& section : optimisers) {
    for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
      for (const Offload offload : {Offload::none, Offload::host, Offload::file}) {
        INFO("optimiser " << static_cast<int>(section.kind) << ", precision " << static_cast<int>(precision)
                          << ", offload " << static_cast<int>(offload));
        RunConfig config = mixedConfig();
        config.run.precision = precision;
        config.optimiser = placed(section, offload);
        config.optimiser.weight_decay = 0.1;
        SmallModel model(config, input, classes);
        LocalStage& local = *model.stages.front();
        StageTrainer trainer(config, local, model.grid, {20, 20});
        for (std::uint64_t step = 0; step < 20; ++step) {
          const Matrix in = matrixOf(rows, local.stage.inputs(), normals(rows * local.stage.inputs(), step));
          trainer.step(space, in, {labelsOf({0, 1, 2, 3, 4, 0}), Matrix()});
        }
        trainer.updater().finishUpdate(space);
        CHECK(trainer.updater().optimiser().steps() > 10);
        checkAlignment(local.stage, trainer.updater().optimiser());
        checkGaps(local.stage, trainer.updater().optimiser());
      }
    }
  }
}

} // namespace partita::test::nn_storage
