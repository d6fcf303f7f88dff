#include "partita/plan/strategies/sil_heads.hpp"

#include "partita/config/user_error.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/layers/table.hpp"
#include "partita/plan/network_plan.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

/// The side of the windows over which the values of an image are averaged before the labels.
std::int64_t poolingWindow(const SilSection& sil, const Shape& cut) {
  constexpr std::int64_t most_values = 4096;
  if (cut.size() < 3) return 1;
  if (sil.label_pool > 0) return sil.label_pool;
  const auto values_after = [&](std::int64_t window) {
    std::int64_t values = cut[0];
    for (std::size_t axis = 1; axis < cut.size(); ++axis) values *= cut[axis] / window;
    return values;
  };
  const std::int64_t smallest = *std::min_element(cut.begin() + 1, cut.end());
  std::int64_t window = 1;
  while (window < smallest && values_after(window) > most_values) ++window;
  return window;
}

/// Layers that the head of a stage repeats.
struct RepeatedLayers {
  std::vector<LayerSpec> next; ///< the layers after the stage
  std::int64_t copied = 0;     ///< of these, layers whose parameters come from the next stage
  std::vector<LayerSpec> tail; ///< the layers without parameters before the last layer of the network
};

using Indices = std::vector<std::size_t>;

/// The number of residual layers that follow, if the next layer with parameters is a residual layer of
/// images.
std::int64_t residualImagesAfter(const std::vector<LayerPlan>& layers, std::int64_t end) {
  const auto next = std::find_if(layers.begin() + end, layers.end(),
                                 [](const LayerPlan& layer) { return layer.parameters() > 0; });
  if (next == layers.end() || !next->rules().residual() || next->in.size() < 3) return 0;
  return std::count_if(next, layers.end(), [](const LayerPlan& layer) { return layer.rules().residual(); });
}

/// Without repeated layers, stages of residual networks lose some points: few if the network is short, so
/// that one layer is enough. A head of the user's own layers repeats nothing by itself.
std::int64_t headDepth(const SilSection& sil, const std::vector<LayerPlan>& layers, std::int64_t end) {
  const std::int64_t least = sil.lookahead > 0 ? 1 : 0;
  if (sil.head_depth >= 0 || !sil.head.empty()) return std::max(sil.head_depth, least);
  const std::int64_t residual = residualImagesAfter(layers, end);
  return std::max<std::int64_t>(residual > 3 ? 2 : residual > 0 ? 1 : 0, least);
}

/// All layers up to the depth-th one with parameters.
Indices nextLayers(const std::vector<LayerPlan>& layers, std::int64_t end, std::int64_t depth) {
  Indices between, found;
  for (std::size_t i = end; i + 1 < layers.size() && depth > 0; ++i) {
    between.push_back(i);
    if (layers[i].parameters() == 0) continue;
    found.insert(found.end(), between.begin(), between.end());
    between.clear();
    --depth;
  }
  return found;
}

/// Layers that resemble what the rest of the network does to an image: those that change its channels or its
/// size, and then the last residual layers, `depth` layers with parameters in total. Each fits the output of
/// the one before it, although layers between them are left out.
Indices shapingLayers(const std::vector<LayerPlan>& layers, std::int64_t end, std::int64_t depth) {
  Indices found, residual;
  for (std::size_t i = end; i + 1 < layers.size(); ++i) {
    const bool learns = layers[i].parameters() > 0;
    if (layers[i].in == layers[i].out) {
      if (layers[i].rules().residual()) residual.push_back(i);
    } else if (depth > 0 || !learns) {
      found.push_back(i);
      depth -= learns ? 1 : 0;
    } else {
      return found;
    }
  }
  found.insert(found.end(), residual.end() - std::min<std::int64_t>(depth, residual.size()), residual.end());
  std::sort(found.begin(), found.end());
  return found;
}

/// A head that looks like what follows the stage (Ma et al., AugLocal, ICLR 2024). The last layer of the
/// network predicts classes itself and is not repeated.
RepeatedLayers repeatedLayers(const SilSection& sil, const std::vector<LayerPlan>& layers, std::int64_t end) {
  const std::int64_t depth = headDepth(sil, layers, end);
  const bool shaping = sil.lookahead == 0 && residualImagesAfter(layers, end) > 0;
  RepeatedLayers repeated;
  const Indices found = shaping ? shapingLayers(layers, end, depth) : nextLayers(layers, end, depth);
  for (const std::size_t index : found) {
    repeated.next.push_back(layers[index].spec);
    if (sil.lookahead > 0 && repeated.copied == 0 && layers[index].parameters() > 0)
      repeated.copied = static_cast<std::int64_t>(repeated.next.size());
  }
  const std::size_t last = layers.size() - 1;
  std::size_t tail = last;
  while (!found.empty() && tail > found.back() + 1 && layers[tail - 1].parameters() == 0) --tail;
  for (; tail < last; ++tail) repeated.tail.push_back(layers[tail].spec);
  return repeated;
}

std::int64_t storedValuesOf(const std::vector<LayerPlan>& layers, std::int64_t count) {
  std::int64_t values = 0;
  for (std::int64_t i = 0; i < count; ++i) values += layers[static_cast<std::size_t>(i)].storedValues();
  return values;
}

/// The copy of the next stage's first layers moves towards them as an exponential average of their values per
/// step would (Su et al., MAN++, arXiv 2507.16279).
ParameterCopy copyOfNext(const SilSection& sil, const StagePlan& stage) {
  constexpr double momentum = 0.995;
  ParameterCopy copy;
  copy.kind = ParameterCopy::Kind::first_layer;
  copy.from_stage = stage.index + 1;
  copy.to_stage = stage.index;
  copy.to = stage.storedBeforeHead();
  copy.size = storedValuesOf(stage.head, stage.copied);
  copy.every = sil.lookahead;
  copy.keep = std::pow(momentum, static_cast<double>(sil.lookahead));
  return copy;
}

/// The labels of a stage are refreshed with the weights of the last layer of the network.
ParameterCopy copyOfLast(const SilSection& sil, const StagePlan& stage, const StagePlan& last) {
  const StageTensor labels = parameterTensors(stage.allLayers()).back();
  ParameterCopy copy;
  copy.kind = ParameterCopy::Kind::last_weights;
  copy.from_stage = last.index;
  copy.to_stage = stage.index;
  copy.to = labels.offset;
  copy.size = storedSize(labels.size);
  copy.every = sil.refresh;
  Shape extents;
  for (const StageTensor& tensor : parameterTensors(last.layers)) {
    if (tensor.extents.size() < 2) continue;
    extents = tensor.extents;
    copy.from = tensor.offset;
  }
  if (extents != labels.extents)
    throw UserError("strategy/refresh: the weights of the last layer, " + toText(extents) +
                    ", cannot replace the labels of stage " + std::to_string(stage.index + 1) + ", " +
                    toText(labels.extents) +
                    "; use a strategy/head whose output has as many values as the last layer has inputs");
  return copy;
}

} // namespace

bool labelsBeforeCountUnits(const SilSection& sil, const Shape& cut) {
  return !learnsLabels(sil) ||
         (sil.head.empty() && sil.head_depth <= 0 && sil.lookahead == 0 && poolingWindow(sil, cut) == 1);
}

StageHead planStageHead(const SilSection& sil, const std::vector<LayerPlan>& layers, std::int64_t end) {
  if (!learnsLabels(sil)) return {};
  const LayerPlan& last = layers[end - 1];
  const RepeatedLayers repeated = repeatedLayers(sil, layers, end);
  std::vector<LayerSpec> specs = repeated.next;
  specs.insert(specs.end(), repeated.tail.begin(), repeated.tail.end());
  const std::int64_t before = specs.size();
  specs.insert(specs.end(), sil.head.begin(), sil.head.end());
  const Shape reached = specs.empty() ? last.out : planHeadLayers(specs, before, last).back().out;
  const std::int64_t window = poolingWindow(sil, reached);
  if (window > 1) specs.push_back(averagePool(window));
  return {planHead(specs, before, last), repeated.copied};
}

/// A linear map of the output at each position, or of the whole output if the input or the output has no
/// spatial axes.
StageDecoder planStageDecoder(const SilSection& sil, const Shape& in, const LayerPlan& last, bool sequence) {
  StageDecoder found;
  if (sil.reconstruct == 0.0) return found;
  const Shape& out = last.out;
  LayerSpec decoder;
  if (sequence) {
    if (!isSequence(in)) return found;
    decoder.dense.units = in[1];
  } else if (in.size() > 2 && in.size() == out.size()) {
    found.window = in[1] / out[1];
    for (std::size_t axis = 2; axis < in.size(); ++axis)
      found.window = std::min(found.window, in[axis] / out[axis]);
    for (std::size_t axis = 1; axis < in.size(); ++axis)
      if (found.window > 0 && in[axis] / found.window != out[axis]) found.window = 0;
    decoder = pointwiseConvolution(in[0], in.size() == 4);
  } else {
    decoder.dense.units = valuesOf(in);
  }
  found.layers = planDecoder(decoder, last);
  return found;
}

std::vector<ParameterCopy> parameterCopies(const SilSection& sil, const std::vector<StagePlan>& stages) {
  std::vector<ParameterCopy> copies;
  for (const StagePlan& stage : stages) {
    if (stage.copied > 0) copies.push_back(copyOfNext(sil, stage));
    if (!stage.last() && sil.refresh > 0) copies.push_back(copyOfLast(sil, stage, stages.back()));
  }
  return copies;
}

Effort effortWithInputGradient(const std::vector<LayerPlan>& layers) {
  Effort effort;
  for (const LayerPlan& layer : layers)
    effort += layer.forwardEffort() + layer.weightEffort() + layer.inputEffort();
  return effort;
}

} // namespace partita
