#include "partita/plan/stage_maker.hpp"

#include "partita/plan/layer_rules.hpp"
#include "partita/plan/layers/table.hpp"
#include "partita/plan/parts/hidden_exchange.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>

namespace partita {

namespace {

using Layers = std::vector<LayerPlan>;

std::array<std::int64_t, 3> mostOf(const std::array<std::int64_t, 3>& a,
                                   const std::array<std::int64_t, 3>& b) {
  return {std::max(a[0], b[0]), std::max(a[1], b[1]), std::max(a[2], b[2])};
}

} // namespace

LayerSizeTable::LayerSizeTable(const RunConfig& config, Layers layers, std::int64_t rows) : _before{{}} {
  setActivations(layers, activationPrecision(config));
  _most.emplace_back();
  for (const LayerPlan& layer : layers) {
    LayerSizes sum = _before.back();
    sum.stored += layer.storedValues();
    sum.statistics += layer.statistics();
    sum.kept += layer.keptValues();
    _before.push_back(sum);
    const Layers alone{layer};
    std::int64_t half_scratch = 0;
    if (config.run.precision != Precision::single)
      for (const LayerPlan* leaf : leavesOf(alone))
        half_scratch = std::max(half_scratch, leaf->halfScratch(rows));
    _most.front().push_back({layer.outputRoom(), workOfLayers(alone, rows), half_scratch});
  }
  for (std::size_t half = 1; 2 * half <= layers.size(); half *= 2) {
    const std::vector<Most>& shorter = _most.back();
    std::vector<Most> longer;
    for (std::size_t i = 0; i + 2 * half <= layers.size(); ++i)
      longer.push_back(mostOf(shorter[i], shorter[i + half]));
    _most.push_back(std::move(longer));
  }
}

LayerSizes LayerSizeTable::of(std::int64_t first, std::int64_t last) const {
  LayerSizes sizes;
  if (first >= last) return sizes;
  const std::size_t begin = first, end = last;
  std::size_t level = 0;
  while (std::size_t{2} << level <= end - begin) ++level;
  const Most most = mostOf(_most[level][begin], _most[level][end - (std::size_t{1} << level)]);
  sizes.stored = _before[end].stored - _before[begin].stored;
  sizes.statistics = _before[end].statistics - _before[begin].statistics;
  sizes.kept = _before[end].kept - _before[begin].kept;
  sizes.widest = most[0];
  sizes.work = most[1];
  sizes.half_scratch = most[2];
  return sizes;
}

namespace {

/// Is it monotonically increasing? Then applying it to the largest of several values gives the same result.
bool grows(Activation activation) {
  return activation != Activation::gelu && activation != Activation::silu;
}

/// May the activation before a layer be moved to after it? Then the layer only chooses or rearranges values.
bool passesOn(const LayerPlan& layer) {
  return layer.spec.activation == Activation::identity && !layer.group() &&
         layer.rules().outputValues() != OutputValues::computed;
}

/// The layer of [begin, end) whose activation may be moved to the very end: the last one, or the one before
/// layers that only choose or rearrange values; null if there is none.
template <class Layer>
Layer* lastActivation(Layer* begin, Layer* end, bool chosen = false) {
  for (Layer* layer = end; layer != begin;) {
    --layer;
    if (layer->spec.activation != Activation::identity)
      return chosen && !grows(layer->spec.activation) ? nullptr : layer;
    const LayerRules& rules = layer->rules();
    if (layer->group())
      return rules.residual()
                 ? nullptr
                 : lastActivation(layer->body.data(), layer->body.data() + layer->body.size(), chosen);
    if (!passesOn(*layer)) return nullptr;
    chosen = chosen || rules.outputValues() == OutputValues::chosen;
  }
  return nullptr;
}

/// The layer that opens the stage after `layer`.
LayerPlan activationAfter(const LayerPlan& layer, const LayerSpec& spec) {
  LayerPlan entrance;
  entrance.spec = activationOf(spec);
  entrance.place = layer.place;
  entrance.index = layer.index;
  entrance.in = entrance.out = layer.out;
  return entrance;
}

/// Sets what stages store in the precision of the run.
void setPrecision(const RunConfig& config, StagePlan& stage) {
  setActivations(stage.layers, activationPrecision(config));
  const auto takes_both = [](const LayerPlan& layer) { return layer.rules().work() == LayerWork::product; };
  LayerPlan &begin = stage.layers.front(), &end = stage.layers.back();
  begin.real_input = stage.first() && takes_both(begin); // fp16 has too small a range for some features
  stage.loss_takes_half = stage.last() && config.training.loss == LossKind::cross_entropy;
  // The few logits that a dense layer has for a sample stay precise, so that classes rarely have equal ones.
  // Those of tokens are the largest activation of their network.
  const bool of_tokens = stage.loss_takes_half && stage.positions > 1;
  end.real_output = stage.last() && takes_both(end) && !of_tokens;
}

} // namespace

/// Only stages with a loss of their own match labels.
StageMaker::StageMaker(const RunConfig& config, const Layers& layers) : _config(config), _layers(layers) {
  const StrategyPlan& plan = planOf(config.strategy);
  if (plan.gradientsCross()) return;
  std::int64_t weights = 0; // number of layers with weights
  for (std::size_t cut = 0; cut <= layers.size(); ++cut) {
    if (cut > 0) weights += weightLayers({layers[cut - 1]});
    _matched.push_back(plan.matchedBefore(config.strategy, weights));
  }
}

StagePlan StageMaker::stage(std::int64_t first, std::int64_t last, int index, int stages) const {
  return make({_layers.begin() + first, _layers.begin() + last}, first, last, index, stages);
}

/// The activation that is moved to a cut may lie before layers that pass it on, so these are kept, too.
StagePlan StageMaker::ends(std::int64_t first, std::int64_t last, int index, int stages,
                           const LayerSizeTable& sizes) const {
  std::int64_t end = last - 1; // the first layer of those at the end
  while (end > first + 1 && passesOn(_layers[static_cast<std::size_t>(end)])) --end;
  end = std::max(end, first + 1);
  Layers layers{_layers[static_cast<std::size_t>(first)]};
  layers.insert(layers.end(), _layers.begin() + end, _layers.begin() + last);
  StagePlan stage = make(std::move(layers), first, last, index, stages);
  stage.left_out = sizes.of(first + 1, end);
  return stage;
}

StagePlan StageMaker::make(Layers layers, std::int64_t first, std::int64_t last, int index,
                           int stages) const {
  StagePlan stage;
  stage.index = index;
  stage.stages = stages;
  stage.layers = std::move(layers);
  stage.sequence = isSequence(_layers.back().out);
  stage.positions = stage.sequence ? _layers.back().out[0] : 1;
  if (!stage.last() && matched(last)) {
    LayerPlan* begin = stage.layers.data();
    if (LayerPlan* moved = lastActivation(begin, begin + stage.layers.size()))
      moved->spec.activation = Activation::identity;
  }
  if (!stage.first() && matched(first)) {
    const LayerPlan* moved = lastActivation(_layers.data(), _layers.data() + first);
    stage.entrance = moved != nullptr;
    if (stage.entrance)
      stage.layers.insert(stage.layers.begin(),
                          activationAfter(_layers[static_cast<std::size_t>(first - 1)], moved->spec));
  }
  const StrategyPlan& plan = planOf(_config.strategy);
  stage.real_input = stage.first() || plan.realInputs(_config.strategy);
  stage.has_loss = stage.last() || !plan.gradientsCross();
  plan.addOwnLoss(_config.strategy, _layers, stage);
  setPrecision(_config, stage);
  return stage;
}

} // namespace partita
