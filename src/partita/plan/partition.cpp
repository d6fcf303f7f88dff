#include "partita/plan/partition.hpp"

#include "partita/config/user_error.hpp"
#include "partita/plan/pipeline_plan.hpp"
#include "partita/plan/training_flops.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace partita {

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
  const auto count = static_cast<std::int64_t>(layers.size());
  return input_gradient ? flops.withInputGradient(0, count) : flops.of(0, count);
}

std::int64_t StagePlan::activationValues() const {
  std::int64_t sum = inputs();
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

double Partition::allowedSpeedup() const {
  return joint_flops / *std::max_element(local_flops.begin(), local_flops.end());
}

StageMemory stageMemory(const StagePlan& stage, const RunConfig& config, const StageLoad& load,
                        std::int64_t real_bytes) {
  constexpr std::int64_t buffer_sets = 3; // of BucketStream
  const OptimiserSection& optimiser = config.optimiser;
  const bool halves = config.run.precision != Precision::single,
             offloads = optimiser.offload != Offload::none;
  const std::int64_t parameters = stage.parameters(), bytes = parameters * (halves ? 2 : real_bytes);
  const int moments = optimiser.kind != OptimiserKind::sgd ? 2 : optimiser.momentum > 0.0 ? 1 : 0;
  const std::int64_t vectors = moments + (halves ? 1 : 0), // and the masters
      state = vectors * parameters * real_bytes,
                     buffers =
                         buffer_sets * vectors * std::min(optimiser.offload_bucket, parameters) * real_bytes;
  // Two work buffers carry the gradient of the activations backwards.
  const std::int64_t values =
      (load.live * stage.activationValues() + 2 * stage.widest() + load.messages) * load.rows +
      stage.workValues(load.rows) + (halves ? 2 * stage.mostParameters() : 0);
  return {bytes + stage.statistics() * real_bytes, bytes, offloads ? buffers : state, values * real_bytes,
          offloads ? state : 0};
}

bool matchedBefore(const StrategySection& strategy, std::int64_t weight_layers) {
  if (!usesLabels(strategy)) return false;
  if (strategy.match != Match::automatic) return strategy.match == Match::before;
  if (weight_layers == 1 && strategy.loss == StageLoss::prototype) return false;
  switch (strategy.labels) {
  case LabelKind::uniform:
  case LabelKind::binary:
  case LabelKind::sparse:
  case LabelKind::block:
    return false;
  default:
    return true;
  }
}

namespace {

/// A part of some way to cut 0..n: where its last part begins, and what it comes to.
struct PartialCut {
  double value = std::numeric_limits<double>::infinity();
  std::int64_t from = 0;
};
using CutTable = std::vector<std::vector<PartialCut>>; ///< [parts so far][end]

/// The best ways to make 1..parts parts of 0..end, for every end; `join` adds a part's cost to the value of
/// those before it.
template <class Join>
CutTable cutTable(std::int64_t n, int parts,
                  const std::function<double(std::int64_t, std::int64_t, int)>& cost, const Join& join) {
  CutTable best(static_cast<std::size_t>(parts) + 1,
                std::vector<PartialCut>(static_cast<std::size_t>(n) + 1));
  best[0][0].value = 0.0;
  for (int part = 1; part <= parts; ++part) {
    const auto p = static_cast<std::size_t>(part);
    for (std::int64_t end = part; end <= n; ++end) {
      PartialCut& here = best[p][static_cast<std::size_t>(end)];
      for (std::int64_t from = part - 1; from < end; ++from) {
        const double before = best[p - 1][static_cast<std::size_t>(from)].value;
        const double value = join(before, cost(from, end, part - 1));
        if (value < here.value) here = {value, from};
      }
    }
  }
  return best;
}

} // namespace

std::vector<std::int64_t> balancedCuts(std::int64_t n, int parts,
                                       const std::function<double(std::int64_t, std::int64_t, int)>& cost) {
  const auto count = static_cast<std::size_t>(parts), size = static_cast<std::size_t>(n);
  const double largest =
      cutTable(n, parts, cost, [](double before, double own) { return std::max(before, own); })[count][size]
          .value;
  const CutTable best = cutTable(n, parts, cost, [largest](double before, double own) {
    return own > largest ? std::numeric_limits<double>::infinity() : before + own * own;
  });
  std::vector<std::int64_t> cuts(count - 1);
  std::int64_t end = n;
  for (std::size_t p = count; p > 1; --p) {
    end = best[p][static_cast<std::size_t>(end)].from;
    cuts[p - 2] = end;
  }
  return cuts;
}

bool mixesLabels(const StrategySection& strategy) {
  if (strategy.input != StageInput::free || strategy.mixture == Switch::off) return false;
  return strategy.mixture == Switch::on || strategy.loss == StageLoss::prototype;
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

/// Does it grow with its argument? Then it may as well be applied to the largest of several values.
bool grows(Activation activation) {
  return activation != Activation::gelu && activation != Activation::silu;
}

/// The layer whose activation may as well be applied at the very end of `layers`: the last one, or the one in
/// front of layers that only choose or rearrange values; null where there is none.
LayerPlan* lastActivation(Layers& layers, bool chosen = false) {
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const std::string& type = layer->spec.type;
    if (layer->spec.activation != Activation::identity)
      return chosen && !grows(layer->spec.activation) ? nullptr : &*layer;
    if (type == "block") return lastActivation(layer->body, chosen);
    if (type != "flatten" && type != "max-pool") return nullptr;
    chosen = chosen || type == "max-pool";
  }
  return nullptr;
}

/// What opens the stage behind `layer`.
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

/// Layers [first, last) as a stage, the activations at its two cuts moved where the labels want them.
StagePlan makeStage(const StrategySection& strategy, const Layers& layers, std::int64_t first,
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

/// FLOPs of one sample through a stage trained alone besides its layers: its local loss, its synthetic input.
double labelFlops(const StrategySection& sil, std::int64_t classes, std::int64_t inputs, std::int64_t outputs,
                  int index, int stages) {
  if (!usesLabels(sil)) return 0.0;
  double flops = 0.0;
  const double label_product = 2.0 * static_cast<double>(classes);
  if (index + 1 < stages && sil.loss == StageLoss::prototype) {
    flops += 2.0 * label_product * static_cast<double>(outputs); // logits and their gradient
  }
  if (index > 0 && mixesLabels(sil)) flops += label_product * static_cast<double>(inputs);
  return flops;
}

/// A stage's place among those of its rank.
struct PlaceOnRank {
  int group = 0, groups = 1;
  bool first = true, last = true;
};

/// `share`: samples of a batch that a replica has.
StageLoad loadOf(const RunConfig& config, const StagePlan& stage, const PlaceOnRank& place,
                 std::int64_t share) {
  const StrategySection& strategy = config.strategy;
  if (usesLabels(strategy)) return {share, 1, 0};
  const std::int64_t microbatches = microbatchesOf(strategy, share);
  const auto window = [&](int group) { return liveWindow(strategy, group, place.groups, microbatches); };
  StageLoad load{microbatchRows(strategy, share), window(place.group), 0};
  if (!stage.first()) load.messages += stage.inputs(); // the gradient
  if (place.first && place.group > 0) load.messages += stage.inputs() * (1 + window(place.group - 1));
  if (place.last && place.group + 1 < place.groups) load.messages += stage.outputs() * (load.live + 2);
  return load;
}

/// The cuts that `strategy/cuts` balances.
std::vector<std::int64_t> cutsByRule(const RunConfig& config, const Layers& layers, std::int64_t classes,
                                     std::int64_t real_bytes, int stages) {
  const StrategySection& strategy = config.strategy;
  const auto n = static_cast<std::int64_t>(layers.size());
  const TrainingFlops flops(layers);
  return balancedCuts(n, stages, [&](std::int64_t first, std::int64_t last, int index) {
    if (strategy.cut_rule == CutRule::flops) {
      const std::int64_t inputs = layers[static_cast<std::size_t>(first)].inputs(),
                         outputs = layers[static_cast<std::size_t>(last - 1)].outputs();
      const bool gradient_leaves = index > 0 && !usesLabels(strategy);
      return (gradient_leaves ? flops.withInputGradient(first, last) : flops.of(first, last)) +
             labelFlops(strategy, classes, inputs, outputs, index, stages);
    }
    const StagePlan stage = makeStage(strategy, layers, first, last, index, stages);
    const StageLoad load = loadOf(config, stage, {index, stages, true, true}, config.training.batch);
    return static_cast<double>(stageMemory(stage, config, load, real_bytes).total());
  });
}

/// Labels of tokens are met at each position.
void checkPositions(const StagePlan& stage, std::int64_t positions) {
  const LayerPlan& last = stage.layers.back();
  const bool fits = positions == 1 || (isSequence(last.out) && last.out[0] == positions);
  if (fits) return;
  throw UserError("strategy/cuts: behind " + last.name() + " a sample has the shape " + toText(last.out) +
                  "; a network that tells " + std::to_string(positions) +
                  " tokens can only be cut where it has as many positions");
}

void checkTies(const StagePlan& stage) {
  const std::vector<const LayerPlan*> leaves = leavesOf(stage.layers);
  if (leaves.empty() || leaves.front()->spec.type == "embedding") return;
  for (const LayerPlan* leaf : leaves) {
    if (leaf->spec.tied)
      throw UserError(leaf->entry + " is tied to the embedding, which is in another stage; leave `tied` out");
  }
}

/// What numbers of 16 bits cannot be combined with.
void checkNumbers(const RunConfig& config, const StagePlan& stage) {
  const bool halves = config.run.precision != Precision::single,
             leaves_out = halves || config.strategy.wire != Precision::single;
  for (const LayerPlan* leaf : leavesOf(stage.layers)) {
    if (halves && leaf->spec.tied)
      throw UserError(leaf->entry + ": a tied layer needs run/precision = \"float\"; leave `tied` out");
    // A step that overflows is left out, but its batch would stay in the statistics.
    if (leaves_out && leaf->statistics() > 0)
      throw UserError(leaf->entry + ": batch-norm needs run/precision and strategy/wire = \"float\"");
  }
}

void checkLabels(const StrategySection& strategy, const Partition& partition, std::int64_t classes) {
  if (!usesLabels(strategy)) return;
  const bool orthogonal = strategy.labels == LabelKind::orthogonal || strategy.labels == LabelKind::etf;
  for (std::size_t i = 0; i + 1 < partition.stages.size(); ++i) {
    if (partition.stages[i].parameters() == 0)
      throw UserError("strategy/cuts: stage " + std::to_string(i + 1) + " has no parameters to learn");
    checkPositions(partition.stages[i], partition.stages[i].positions);
    const std::int64_t width = partition.stages[i].labelWidth();
    if ((orthogonal || strategy.labels == LabelKind::block) && width < classes) {
      throw UserError("strategy/labels: orthogonal, etf and block labels need at least as many units at a "
                      "cut as there are classes; "
                      "stage " +
                      std::to_string(i + 1) + " ends with " + std::to_string(width) + " units for " +
                      std::to_string(classes) +
                      " classes (choose gaussian, sign or uniform, or another cut)");
    }
  }
}

} // namespace

Partition planPartition(const RunConfig& config, const Layers& layers, std::int64_t classes,
                        std::int64_t real_bytes) {
  const StrategySection& strategy = config.strategy;
  const auto n = static_cast<std::int64_t>(layers.size());
  const int stages = strategy.kind == StrategyKind::joint ? 1 : static_cast<int>(strategy.stages);
  if (stages > n) {
    throw UserError("strategy/stages: " + std::to_string(stages) +
                    " stages need as many layers, the network has " + std::to_string(n));
  }
  Partition partition;
  if (stages > 1) {
    partition.cuts = strategy.cut_rule == CutRule::list
                         ? strategy.cuts
                         : cutsByRule(config, layers, classes, real_bytes, stages);
  }
  std::int64_t first = 0;
  for (int index = 0; index < stages; ++index) {
    const std::int64_t last = index + 1 < stages ? partition.cuts[static_cast<std::size_t>(index)] : n;
    if (last <= first || last > n) {
      throw UserError("strategy/cuts: each of the " + std::to_string(stages) +
                      " stages needs at least one of the " + std::to_string(n) +
                      " layers; cuts count layers from 0 and increase");
    }
    partition.stages.push_back(makeStage(strategy, layers, first, last, index, stages));
    const StagePlan& stage = partition.stages.back();
    partition.local_flops.push_back(
        stage.trainFlops(index > 0 && !usesLabels(strategy)) +
        labelFlops(strategy, classes, stage.inputs(), stage.outputs(), index, stages));
    first = last;
  }
  for (const StagePlan& stage : partition.stages) {
    checkTies(stage);
    checkNumbers(config, stage);
  }
  partition.joint_flops = makeStage(strategy, layers, 0, n, 0, 1).trainFlops(false);
  checkLabels(strategy, partition, classes);
  return partition;
}

int GridPlan::groupOf(int stage) const {
  int group = 0;
  while (first_stage[static_cast<std::size_t>(group) + 1] <= stage) ++group;
  return group;
}

GridPlan planGrid(const StrategySection& strategy, const Partition& partition, int ranks) {
  GridPlan grid;
  grid.ranks = ranks;
  grid.stages = static_cast<int>(partition.stages.size());
  grid.replicas =
      strategy.replicas > 0 ? static_cast<int>(strategy.replicas) : std::max(1, ranks / grid.stages);
  grid.groups = ranks / grid.replicas;
  if (grid.groups * grid.replicas != ranks || grid.groups > grid.stages || grid.groups == 0) {
    throw UserError(std::to_string(ranks) + (ranks == 1 ? " rank does" : " ranks do") + " not fit " +
                    std::to_string(grid.stages) + " stages" +
                    (strategy.replicas > 0 ? " x " + std::to_string(grid.replicas) + " replicas" : "") +
                    ": start stages x replicas ranks, or at most as many ranks as stages");
  }
  grid.first_stage.push_back(0);
  const auto dealt = balancedCuts(grid.stages, grid.groups, [&](std::int64_t first, std::int64_t last, int) {
    return std::accumulate(partition.local_flops.begin() + first, partition.local_flops.begin() + last, 0.0);
  });
  grid.first_stage.insert(grid.first_stage.end(), dealt.begin(), dealt.end());
  grid.first_stage.push_back(grid.stages);
  return grid;
}

StageLoad stageLoad(const RunConfig& config, const Partition& partition, const GridPlan& grid, int stage) {
  PlaceOnRank place{grid.groupOf(stage), grid.groups, true, true};
  const auto group = static_cast<std::size_t>(place.group);
  place.first = stage == grid.first_stage[group];
  place.last = stage + 1 == grid.first_stage[group + 1];
  const std::int64_t share = (config.training.batch + grid.replicas - 1) / grid.replicas;
  return loadOf(config, partition.stages[static_cast<std::size_t>(stage)], place, share);
}

} // namespace partita
