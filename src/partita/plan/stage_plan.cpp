#include "partita/plan/stage_plan.hpp"

#include "partita/plan/layer_rules.hpp"
#include "partita/plan/strategies/sil.hpp"

#include <algorithm>
#include <numeric>

namespace partita {

TrainingFlops::TrainingFlops(const std::vector<LayerPlan>& layers)
    : _own{0.0}, _input{0.0}, _next_trained(layers.size(), layers.size()) {
  for (const LayerPlan& layer : layers) {
    _own.push_back(_own.back() + layer.forwardFlops() + layer.weightFlops());
    _input.push_back(_input.back() + layer.inputFlops());
  }
  for (std::size_t i = layers.size(); i-- > 0;) {
    if (layers[i].parameters() > 0)
      _next_trained[i] = i;
    else if (i + 1 < layers.size())
      _next_trained[i] = _next_trained[i + 1];
  }
}

double TrainingFlops::of(std::int64_t first, std::int64_t last) const {
  const std::size_t begin = first, end = last;
  const auto wanted = std::min(end, static_cast<std::size_t>(_next_trained[begin]) + 1);
  return _own[end] - _own[begin] + _input[end] - _input[wanted];
}

double TrainingFlops::withInputGradient(std::int64_t first, std::int64_t last) const {
  const std::size_t begin = first, end = last;
  return _own[end] - _own[begin] + _input[end] - _input[begin];
}

namespace {

std::vector<StageTensor> tensorsOf(const std::vector<LayerPlan>& layers,
                                   std::vector<ParameterShape> (LayerPlan::*shapes)() const,
                                   std::int64_t granule) {
  std::vector<StageTensor> tensors;
  std::int64_t offset = 0;
  for (const LayerPlan* layer : leavesOf(layers)) {
    for (const ParameterShape& shape : (layer->*shapes)()) {
      tensors.push_back({layer->name(), shape.name, shape.extents, offset, shape.size()});
      offset += storedSize(shape.size(), granule);
    }
  }
  return tensors;
}

} // namespace

std::vector<StageTensor> parameterTensors(const std::vector<LayerPlan>& layers) {
  return tensorsOf(layers, &LayerPlan::parameterShapes, tensor_granule);
}

std::vector<StageTensor> statisticTensors(const std::vector<LayerPlan>& layers) {
  return tensorsOf(layers, &LayerPlan::statisticsShapes, 1);
}

std::int64_t StagePlan::storedValues() const {
  return std::accumulate(layers.begin(), layers.end(), std::int64_t{0},
                         [](std::int64_t sum, const LayerPlan& layer) { return sum + layer.storedValues(); });
}

std::int64_t StagePlan::statistics() const {
  return std::accumulate(layers.begin(), layers.end(), std::int64_t{0},
                         [](std::int64_t sum, const LayerPlan& layer) { return sum + layer.statistics(); });
}

double StagePlan::forwardFlops() const {
  return std::accumulate(layers.begin(), layers.end(), 0.0,
                         [](double sum, const LayerPlan& layer) { return sum + layer.forwardFlops(); });
}

double StagePlan::trainFlops(bool input_gradient) const {
  const TrainingFlops flops(layers);
  const std::int64_t count = layers.size();
  return input_gradient ? flops.withInputGradient(0, count) : flops.of(0, count);
}

std::int64_t StagePlan::labelValues() const {
  return positions * layers.back().classes;
}

std::int64_t StagePlan::keptValues() const {
  std::int64_t sum = 0;
  for (const LayerPlan& layer : layers) sum += layer.keptValues();
  return sum;
}

std::int64_t StagePlan::widest() const {
  std::int64_t widest = 0;
  for (const LayerPlan& layer : layers) widest = std::max(widest, layer.outputs());
  return widest;
}

std::int64_t StagePlan::workValues(std::int64_t rows) const {
  std::int64_t most = 0;
  for (const LayerPlan& layer : layers) most = std::max(most, layer.workValues(rows));
  return most;
}

std::int64_t StagePlan::mostParameters() const {
  std::int64_t most = 0;
  for (const LayerPlan* layer : leavesOf(layers)) most = std::max(most, layer->parameters());
  return most;
}

std::int64_t StagePlan::realCopies() const {
  std::int64_t most = 0;
  for (const LayerPlan* layer : leavesOf(layers)) most = std::max(most, layer->realCopies());
  return most;
}

namespace {

using Layers = std::vector<LayerPlan>;

std::int64_t weightLayers(const Layers& layers) {
  const auto leaves = leavesOf(layers);
  return std::count_if(leaves.begin(), leaves.end(), [](const LayerPlan* layer) {
    const auto shapes = layer->parameterShapes();
    return !shapes.empty() && shapes.front().extents.size() > 1;
  });
}

/// Is it monotonically increasing? Then applying it to the largest of several values gives the same result.
bool grows(Activation activation) {
  return activation != Activation::gelu && activation != Activation::silu;
}

/// The layer whose activation may be moved to the very end of `layers`: the last one, or the one before
/// layers that only choose or rearrange values; null if there is none.
LayerPlan* lastActivation(Layers& layers, bool chosen = false) {
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    if (layer->spec.activation != Activation::identity)
      return chosen && !grows(layer->spec.activation) ? nullptr : &*layer;
    const LayerRules& rules = layer->rules();
    if (layer->group()) return rules.residual() ? nullptr : lastActivation(layer->body, chosen);
    if (rules.outputValues() == OutputValues::computed) return nullptr;
    chosen = chosen || rules.outputValues() == OutputValues::chosen;
  }
  return nullptr;
}

/// The layer that opens the stage after `layer`.
LayerPlan activationAfter(const LayerPlan& layer, const LayerSpec& spec) {
  LayerPlan entrance;
  entrance.spec.type = "activation";
  entrance.spec.activation = spec.activation;
  entrance.spec.slope = spec.slope;
  entrance.place = layer.place;
  entrance.index = layer.index;
  entrance.in = entrance.out = layer.out;
  return entrance;
}

} // namespace

StagePlan makeStage(const StrategySection& strategy, const std::vector<LayerPlan>& layers, std::int64_t first,
                    std::int64_t last, int index, int stages) {
  StagePlan stage;
  stage.index = index;
  stage.stages = stages;
  stage.layers.assign(layers.begin() + first, layers.begin() + last);
  stage.positions = isSequence(layers.back().out) ? layers.back().out[0] : 1;
  Layers before(layers.begin(), layers.begin() + first);
  if (!stage.last() && matchedBefore(strategy, weightLayers(before) + weightLayers(stage.layers))) {
    if (LayerPlan* moved = lastActivation(stage.layers)) moved->spec.activation = Activation::identity;
  }
  if (!stage.first() && matchedBefore(strategy, weightLayers(before))) {
    const LayerPlan* moved = lastActivation(before);
    stage.entrance = moved != nullptr;
    if (stage.entrance)
      stage.layers.insert(stage.layers.begin(), activationAfter(before.back(), moved->spec));
  }
  return stage;
}

} // namespace partita
