#pragma once

#include "partita/plan/network_plan.hpp"
#include "partita/strategy/local_stage.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace partita::test {

/// Dense layers of these widths with one activation, and an output layer whose width is the number of
/// classes.
inline NetworkSection denseNetwork(const std::vector<std::int64_t>& widths, Activation activation) {
  NetworkSection network;
  for (const std::int64_t width : widths) {
    LayerSpec spec;
    spec.dense.units = width;
    spec.activation = activation;
    network.layers.push_back(spec);
  }
  network.layers.emplace_back();
  return network;
}

/// A deck for four layers, cut into `stages`, with fixed labels.
inline RunConfig smallConfig(std::int64_t stages) {
  RunConfig config;
  config.network = denseNetwork({24, 20, 16}, Activation::relu);
  config.training.batch = 10;
  config.strategy.kind = StrategyKind::sil;
  config.strategy.stages = stages;
  config.strategy.sil.labels = LabelKind::orthogonal;
  return config;
}

/// The network of a deck with all its stages on this rank.
struct SmallModel {
  SmallModel(const RunConfig& deck, std::int64_t inputs, std::int64_t classes)
      : SmallModel(deck, Shape{inputs}, classes) {}
  SmallModel(const RunConfig& deck, const Shape& input, std::int64_t classes)
      : config(deck), partition(planPartition(config, planNetwork(config.network, input, classes), classes)),
        world(Communicator::world()), grid(world, planGrid(config.strategy, partition, 1)),
        stages(makeLocalStages(config, partition, grid, classes)) {}

  template <class StagePointer>
  std::vector<StagePointer> pointers() const {
    std::vector<StagePointer> all;
    for (const auto& local : stages) all.push_back(&local->stage);
    return all;
  }

  RunConfig config;
  Partition partition;
  Communicator world;
  Grid grid;
  std::vector<std::unique_ptr<LocalStage>> stages;
};

} // namespace partita::test
