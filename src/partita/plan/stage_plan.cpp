#include "partita/plan/stage_plan.hpp"

#include "partita/plan/parts/hidden_exchange.hpp"

#include <algorithm>

namespace partita {

namespace {

/// The effort of gradients within consecutive layers if nothing before them needs one: gradients of the
/// inputs of all layers after the first one that learns, and of layers inside that one.
Effort gradientsWithin(const std::vector<LayerPlan>& layers) {
  Effort effort;
  bool learned = false;
  for (const LayerPlan& layer : layers) {
    if (learned)
      effort += layer.inputEffort();
    else
      effort += gradientsWithin(layer.body) + gradientsWithin(layer.shortcut);
    learned = learned || layer.parameters() > 0;
  }
  return effort;
}

} // namespace

TrainingEffort::TrainingEffort(const std::vector<LayerPlan>& layers)
    : _own{{}}, _input{{}}, _next_trained(layers.size(), layers.size()) {
  for (const LayerPlan& layer : layers) {
    _own.push_back(_own.back() + layer.forwardEffort() + layer.weightEffort());
    _input.push_back(_input.back() + layer.inputEffort());
    _within.push_back(gradientsWithin(layer.body) + gradientsWithin(layer.shortcut));
  }
  for (std::size_t i = layers.size(); i-- > 0;) {
    if (layers[i].parameters() > 0)
      _next_trained[i] = i;
    else if (i + 1 < layers.size())
      _next_trained[i] = _next_trained[i + 1];
  }
}

Effort TrainingEffort::of(std::int64_t first, std::int64_t last) const {
  const std::size_t begin = first, end = last;
  const std::size_t trained = _next_trained[begin];
  Effort effort = _own[end] - _own[begin];
  if (trained < end) effort += _within[trained] + (_input[end] - _input[trained + 1]);
  return effort;
}

Effort TrainingEffort::atLeast(std::int64_t first, std::int64_t last) const {
  const std::size_t begin = first, end = last, trained = _next_trained[begin];
  const Effort own = _own[end] - _own[begin];
  return trained < end ? own + (_input[end] - _input[trained + 1]) : own;
}

Effort TrainingEffort::withInputGradient(std::int64_t first, std::int64_t last) const {
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
    const std::vector<ParameterShape> whole = (layer->whole().*shapes)();
    for (const ParameterShape& shape : (layer->*shapes)()) {
      const std::vector<std::int64_t> extents = extentsOf(whole, shape.name);
      tensors.push_back({layer->name(), shape.name, extents, offset, shape.size(),
                         layer->slicesOf(shape.name, extents), !layer->part || layer->part->owns});
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

const StageTensor* findTensor(const std::vector<StageTensor>& tensors, const std::string& layer,
                              const std::string& name) {
  for (const StageTensor& tensor : tensors)
    if (tensor.layer == layer && tensor.name == name) return &tensor;
  return nullptr;
}

namespace {

template <class Value>
auto sumOver(const std::vector<LayerPlan>& layers, const Value& value) {
  decltype(value(layers.front())) sum{};
  for (const LayerPlan& layer : layers) sum += value(layer);
  return sum;
}

template <class Value>
std::int64_t mostOf(const std::vector<LayerPlan>& layers, const Value& value) {
  std::int64_t most = 0;
  for (const LayerPlan& layer : layers) most = std::max(most, value(layer));
  return most;
}

/// Also of the decoder and the head.
template <class Value>
std::int64_t mostOfLeaves(const StagePlan& stage, const Value& value) {
  std::int64_t most = 0;
  for (const std::vector<LayerPlan>* layers : {&stage.layers, &stage.decoder, &stage.head})
    for (const LayerPlan* leaf : leavesOf(*layers)) most = std::max(most, value(*leaf));
  return most;
}

} // namespace

std::vector<LayerPlan> StagePlan::allLayers() const {
  std::vector<LayerPlan> all = layers;
  all.insert(all.end(), decoder.begin(), decoder.end());
  all.insert(all.end(), head.begin(), head.end());
  return all;
}

std::int64_t StagePlan::storedBeforeHead() const {
  const auto stored = [](const LayerPlan& layer) { return layer.storedValues(); };
  return left_out.stored + sumOver(layers, stored) + sumOver(decoder, stored);
}

std::int64_t StagePlan::storedValues() const {
  return storedBeforeHead() + sumOver(head, [](const LayerPlan& layer) { return layer.storedValues(); });
}

std::int64_t StagePlan::statistics() const {
  const auto own = [](const LayerPlan& layer) { return layer.statistics(); };
  return left_out.statistics + sumOver(layers, own) + sumOver(decoder, own) + sumOver(head, own);
}

Effort StagePlan::trainEffort(bool input_gradient) const {
  const TrainingEffort effort(layers);
  const std::int64_t count = layers.size();
  return input_gradient ? effort.withInputGradient(0, count) : effort.of(0, count);
}

std::int64_t StagePlan::labelValues() const {
  return positions * layers.back().classes;
}

std::int64_t StagePlan::keptValues() const {
  return left_out.kept + sumOver(layers, [](const LayerPlan& layer) { return layer.keptValues(); });
}

std::int64_t StagePlan::headValues() const {
  return sumOver(head, [](const LayerPlan& layer) { return layer.keptValues(); });
}

ImageLayout StagePlan::targetLayout() const {
  const bool as_vector = !decoder.empty() && decoder.back().out.size() == 1;
  return as_vector ? layoutOf(layers.front().in) : ImageLayout{};
}

bool StagePlan::copiesTarget() const {
  return decoder_window > 1 || !targetLayout().trivial();
}

/// What the decoder keeps, the averaged input, and the gradient of the output.
std::int64_t StagePlan::decoderValues() const {
  if (decoder.empty()) return 0;
  return decoder.front().keptValues() + (copiesTarget() ? decoder.front().outputs() : 0) + outputs();
}

std::int64_t StagePlan::widest() const {
  const auto own = [](const LayerPlan& layer) { return layer.outputRoom(); };
  return std::max({left_out.widest, mostOf(layers, own), mostOf(decoder, own), mostOf(head, own),
                   copiesOutput() ? outputs() : 0});
}

bool StagePlan::copiesInput() const {
  return real_input && readHalf(layers);
}

bool StagePlan::copiesOutput() const {
  return has_loss && !loss_takes_half && layers.back().outputPrecision() != Precision::single;
}

std::int64_t StagePlan::workValues(std::int64_t rows) const {
  const std::int64_t input = copiesInput() ? rows * alignedRoom(layers.front().inputRoom()) : 0,
                     reconstructed = !decoder.empty() && readHalf(layers) ? rows * inputs() : 0;
  return std::max({std::max(left_out.work, workOfLayers(layers, rows)) + input, workOfLayers(decoder, rows),
                   workOfLayers(head, rows), reconstructed});
}

std::int64_t StagePlan::mostParameters() const {
  return mostOfLeaves(*this, [](const LayerPlan& layer) { return layer.parameters(); });
}

std::int64_t StagePlan::halfScratch(std::int64_t rows) const {
  const auto own = [rows](const LayerPlan& layer) { return layer.halfScratch(rows); };
  return std::max(left_out.half_scratch, mostOfLeaves(*this, own));
}

std::int64_t weightLayers(const std::vector<LayerPlan>& layers) {
  std::int64_t sum = 0;
  for (const LayerPlan& layer : layers) {
    sum += weightLayers(layer.body) + weightLayers(layer.shortcut);
    if (layer.group()) continue;
    const std::vector<ParameterShape> shapes = layer.parameterShapes();
    sum += !shapes.empty() && shapes.front().extents.size() > 1 ? 1 : 0;
  }
  return sum;
}

} // namespace partita
