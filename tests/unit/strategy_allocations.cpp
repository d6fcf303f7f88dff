#include "partita/config/deck.hpp"
#include "partita/data/load_data.hpp"
#include "partita/data/order.hpp"
#include "partita/kernels/onednn_convolve.hpp"
#include "partita/kernels/onednn_products.hpp"
#include "partita/strategy/sil/synthetic_source.hpp"
#include "partita/strategy/stage_trainer.hpp"

#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/small_model.hpp"

namespace partita::test::strategy_allocations {

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t batch = 10, steps = 12;

DataSets glyphs() {
  DataSection section;
  section.samples = 60;
  section.test_samples = 10;
  section.classes = 10;
  section.image_size = 12;
  return loadData(section, 1, Need::everything);
}

/// Two stages side by side; the second one gets its input from the first or from labels.
class Training {
 public:
  Training(const RunConfig& config, const DataSets& sets)
      : _model(config, sets.shape, sets.classes), _features(sets, sets.train) {
    for (const auto& local : _model.stages)
      _trainers.push_back(
          std::make_unique<StageTrainer>(_model.config, *local, _model.grid, UpdateSchedule{steps, 6}));
    const auto reader = [&](const RowSource* rows) {
      return std::make_unique<BatchReader>(rows, sets.train,
                                           trainingOrder(sets.train.size(), 1, batch, 0, 1, 0), steps, batch,
                                           config.data.prefetch);
    };
    _sources.push_back(readerSource(reader(&_features)));
    if (config.strategy.sil.input == StageInput::free) {
      _sources.push_back(SyntheticSource(_model.stages[0]->labels, reader(nullptr),
                                         config.strategy.sil.loss == StageLoss::prototype, 1.0, 1, 1,
                                         SyntheticSource::Place{batch, 0}, batch));
    } else {
      _sources.push_back(handedSource(*_model.stages[0], reader(nullptr)));
    }
  }

  void step() {
    for (std::size_t s = 0; s < 2; ++s) {
      const StageBatch in = _sources[s](space);
      LocalStage& local = _trainers[s]->local();
      _trainers[s]->step(space, in.in, in.targets, [&] { local.encode(space, {}, local.tape); });
      if ((_trainers[s]->updater().step() + 1) % 4 == 0) _trainers[s]->updater().report(space, 1, 1.0);
    }
  }

 private:
  SmallModel _model;
  FeatureRows _features;
  std::vector<std::unique_ptr<StageTrainer>> _trainers;
  std::vector<BatchSource> _sources;
};

void checkNoAllocations(const RunConfig& config, const DataSets& sets) {
  Training(config, sets).step(); // Kokkos allocates the scratch memory of teams once, without a label
  const Allocations from_the_start;
  Training training(config, sets);
  CHECK(from_the_start.count() > 0); // the counter works
  for (int i = 0; i < 2; ++i) training.step();
  const Allocations later;
  const std::int64_t compiled = onednn::compiledShapes();
  for (int i = 0; i < 8; ++i) training.step();
  CHECK(later.count() == 0);
  CHECK(onednn::compiledShapes() == compiled);
  CHECK(from_the_start.foreignLabels() == 0);
}

} // namespace

TEST_CASE("A training step allocates nothing after the first two", "[strategy]") {
  const DataSets sets = glyphs();
  for (const LabelKind labels : {LabelKind::automatic, LabelKind::orthogonal}) {
    const Activation activation = labels == LabelKind::orthogonal ? Activation::relu : Activation::gelu;
    for (const StageLoss loss : {StageLoss::mse, StageLoss::prototype}) {
      for (const StageInput input : {StageInput::relay, StageInput::free}) {
        for (const OptimiserKind optimiser : {OptimiserKind::sgd, OptimiserKind::adamw}) {
          RunConfig config = smallConfig(2);
          config.network = denseNetwork({24, 20, 16}, activation);
          config.strategy.sil.loss = loss;
          config.strategy.sil.input = input;
          config.strategy.sil.labels = labels;
          config.optimiser.kind = optimiser;
          config.optimiser.clip_norm = optimiser == OptimiserKind::sgd ? 0.5 : 0.0;
          config.data.prefetch = loss == StageLoss::mse ? 0 : 2;
          checkNoAllocations(config, sets);
        }
      }
    }
  }
}

TEST_CASE("A training step of a network on tokens allocates nothing either", "[strategy]") {
  DataSection section;
  section.kind = DataKind::grammar;
  section.sequence = 9;
  section.samples = 60;
  section.test_samples = 10;
  const auto layer = [](const std::string& type) {
    LayerSpec spec;
    spec.type = type;
    return spec;
  };
  LayerSpec embedding = layer("embedding"), block = layer("block"), residual = layer("residual");
  embedding.embedding.width = 32;
  embedding.embedding.positions = true;
  residual.layers = {layer("layer-norm"), layer("attention"), layer("dropout")};
  block.layers = {residual, layer("rms-norm")};
  block.repeat = 3;
  for (const auto& [recompute, precision] :
       {std::pair{false, Precision::single}, {true, Precision::single}, {true, Precision::bf16}}) {
    RunConfig config = smallConfig(2);
    config.run.precision = precision;
    section.sequence = precision == Precision::bf16 ? 40 : 9; // so many that products compute attention
    block.recompute = recompute;
    config.network.layers = {embedding, block, LayerSpec()};
    checkNoAllocations(config, loadData(section, 1, Need::everything));
  }
}

TEST_CASE("A training step that a library computes compiles and allocates nothing after the first two",
          "[strategy]") {
  const bool by_library = onednn::convolvesFloats();
  RunConfig config = parseDeck(R"([network]
layers = [
  { type = "conv2d", channels = 16, kernel = 3, activation = "relu" },
  { type = "conv2d", channels = 32, kernel = 3, activation = "gelu" },
  { type = "conv2d", channels = 32, kernel = 1, stride = 2, activation = "relu" },
  { type = "dense", units = 64, activation = "gelu" },
  { type = "dense" },
]
[training]
batch = 10
[strategy]
kind = "sil"
cuts = [3]
)",
                               "deck");
  for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
    config.run.precision = precision;
    const std::int64_t before = onednn::compiledShapes();
    checkNoAllocations(config, glyphs());
    if (by_library && precision == Precision::single) CHECK(onednn::compiledShapes() > before);
  }
}

TEST_CASE("A training step of a convolutional network allocates nothing either", "[strategy]") {
  RunConfig config = parseDeck(R"([network]
layers = [
  { type = "conv2d", channels = 4, kernel = 3, activation = "gelu" },
  { type = "residual", activation = "relu", layers = [
    { type = "conv2d", channels = 4, kernel = 3, padding = 1 }, { type = "batch-norm" } ], recompute = true },
  { type = "max-pool" }, { type = "group-norm", groups = 2 },
  { type = "block", layers = [{ type = "average-pool" }, { type = "dense" }] },
]
[training]
batch = 10
[strategy]
kind = "sil"
cuts = [2]
)",
                               "deck");
  for (const Precision precision : {Precision::single, Precision::bf16}) {
    config.run.precision = precision;
    checkNoAllocations(config, glyphs());
  }
}

} // namespace partita::test::strategy_allocations
