#include "partita/config/validate.hpp"

#include "partita/config/layer_types.hpp"
#include "partita/config/names.hpp"
#include "partita/config/strategy_parameters.hpp"
#include "partita/config/text.hpp"
#include "partita/config/validate_hogbatch.hpp"

#include <algorithm>
#include <functional>
#include <string>

namespace partita {

namespace {

constexpr std::int64_t most_layers = 100000;

std::string number(std::int64_t value) {
  return std::to_string(value);
}

std::int64_t layerCount(const NetworkSection& network) {
  std::int64_t count = 0;
  for (const LayerSpec& layer : network.layers) count += layer.repeat;
  return count;
}

/// Including those inside groups.
double countAll(const std::vector<LayerSpec>& layers) {
  double count = 0.0;
  for (const LayerSpec& layer : layers)
    count += static_cast<double>(layer.repeat) * (1.0 + countAll(layer.layers) + countAll(layer.shortcut));
  return count;
}

LayerRole roleOf(const LayerSpec& layer) {
  const LayerType* type = layerTypes().find(layer.type); // null: the type has already been refused
  return type == nullptr ? LayerRole::plain : type->role;
}

/// `list`: the key of the list that the layer is in. `last`: is it the last layer of the network?
void validateKeys(LayerSpec layer, const std::string& name, const std::string& list, bool last,
                  Diagnostics& d) {
  if (layerTypes().find(layer.type) == nullptr) return;
  for (const Parameter& key : describe(layer).parameters) {
    if (key.required == Required::never || !key.empty()) continue;
    if (key.required == Required::but_last)
      d.check(last, {name, list},
              "`" + key.key + "` is missing; only the last layer takes it from the number of classes");
    else
      d.check(false, {name, list}, "`" + key.key + "` is missing; type '" + layer.type + "' requires it");
  }
}

/// `end`: is the last of these layers the last of the network?
void validateLayers(const std::vector<LayerSpec>& layers, const std::string& place, const std::string& list,
                    bool end, Diagnostics& d) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerSpec& layer = layers[i];
    const std::string name = place + "[" + std::to_string(i) + "]";
    const bool last = end && i + 1 == layers.size() && layer.repeat == 1;
    validateKeys(layer, name, list, last, d);
    validateLayers(layer.layers, name + "/layers", list, last && roleOf(layer) == LayerRole::row, d);
    validateLayers(layer.shortcut, name + "/shortcut", list, false, d);
  }
}

void validateRun(const RunConfig& c, Diagnostics& d) {
  // A deck may hold both, as every effective deck does; an override that changes nothing is a mistake.
  d.check(c.run.steps == 0 || !d.onCommandLine("run/epochs"), {"run/epochs", "run/steps"},
          "has no effect when run/steps is " + number(c.run.steps) + "; set run/steps=0 to count epochs");
}

void requireFile(const std::string& file, const std::string& key, const DataSection& data, Diagnostics& d) {
  d.check(!file.empty(), {key, "data/kind"}, "missing; kind '" + nameOf(data.kind) + "' requires it");
}

void validateFiles(const DataSection& data, Diagnostics& d) {
  d.check(data.splits() || data.test_fraction == 0, {"data/test_fraction", "data/kind"},
          "has no effect when data/kind is '" + nameOf(data.kind) + "', which has a test set of its own");
  if (data.kind == DataKind::idx) {
    requireFile(data.train_images, "data/train_images", data, d);
    requireFile(data.train_labels, "data/train_labels", data, d);
    requireFile(data.test_images, "data/test_images", data, d);
    requireFile(data.test_labels, "data/test_labels", data, d);
  } else if (data.splits()) {
    requireFile(data.train_file, "data/train_file", data, d);
    d.check(!data.test_file.empty() || data.test_fraction > 0 || data.validation > 0,
            {"data/test_file", "data/kind"},
            "missing; kind '" + nameOf(data.kind) +
                "' requires it, or data/test_fraction or data/validation to split the training set");
    d.check(data.test_file.empty() || data.test_fraction == 0, {"data/test_fraction", "data/test_file"},
            "has no effect when data/test_file is '" + data.test_file +
                "'; set data/test_fraction=0 to use that file");
    d.check(data.test_fraction + data.validation < 1, {"data/test_fraction", "data/validation"},
            "together with data/validation, leaves nothing for training");
  } else if (data.kind == DataKind::glyphs) {
    // Training on generated data instead of the files would be a surprise, unless the kind is explicit.
    const bool has_files = !data.train_images.empty() || !data.train_file.empty();
    d.check(!has_files || d.isSet("data/kind"), {"data/kind"},
            "missing; it is required because data files are named");
  }
}

void validateData(const RunConfig& c, Diagnostics& d) {
  validateFiles(c.data, d);
  d.check(c.data.classes != 1, {"data/classes"},
          "a single class leaves nothing to learn (allowed 0 or >= 2)");
  d.check(c.data.kind != DataKind::glyphs || c.data.classes <= glyph_classes, {"data/classes", "data/kind"},
          "glyphs has at most " + number(glyph_classes) + " classes, not " + number(c.data.classes));
}

bool takesTokens(const std::vector<LayerSpec>& layers) {
  return std::any_of(layers.begin(), layers.end(), [](const LayerSpec& layer) {
    return roleOf(layer) == LayerRole::takes_tokens || takesTokens(layer.layers) ||
           takesTokens(layer.shortcut);
  });
}

/// Outputs of the last layer as given in the deck; 0: the number of classes, or those of another layer.
std::int64_t outputsOf(LayerSpec last) {
  if (layerTypes().find(last.type) == nullptr) return 0;
  for (const Parameter& key : describe(last).parameters)
    if (key.required == Required::but_last) return *std::get<std::int64_t*>(key.target);
  return 0;
}

void validateNetwork(const RunConfig& c, Diagnostics& d) {
  const auto& layers = c.network.layers;
  d.check(!layers.empty(), {"network/layers"},
          "missing; the network needs at least one layer: layers = [{type = \"dense\"}]");
  const double all = countAll(layers);
  d.check(all <= static_cast<double>(most_layers), {"network/layers"},
          number(static_cast<std::int64_t>(std::min(all, 1e15))) +
              " layers including repeats are more than " + number(most_layers));
  validateLayers(layers, "network/layers", "network/layers", true, d);
  const bool tokens = c.data.kind == DataKind::text || c.data.kind == DataKind::grammar;
  d.check(tokens == takesTokens(layers), {"network/layers", "data/kind"},
          tokens ? "an embedding must be the first layer, because data of kind '" + nameOf(c.data.kind) +
                       "' are tokens"
                 : "an embedding needs tokens: data of kind 'text' or 'grammar'");
  const std::int64_t outputs = layers.empty() ? 0 : outputsOf(layers.back());
  d.check(outputs == 0 || c.data.classes == 0 || outputs == c.data.classes,
          {"network/layers", "data/classes"},
          "the last layer has " + number(outputs) + " units, but data/classes is " + number(c.data.classes));
}

void validateOptimiser(const RunConfig& c, Diagnostics& d) {
  const OptimiserSection& o = c.optimiser;
  d.check(!o.nesterov || o.kind == OptimiserKind::sgd, {"optimiser/nesterov", "optimiser/kind"},
          "needs kind 'sgd', not '" + nameOf(o.kind) + "'");
  d.check(!o.nesterov || o.momentum > 0, {"optimiser/nesterov", "optimiser/momentum"}, "needs momentum > 0");
  d.check(o.offload == Offload::none || o.kind != OptimiserKind::sgd || o.momentum > 0 ||
              c.run.precision != Precision::single,
          {"optimiser/offload", "optimiser/momentum"},
          "sgd without momentum has no state to offload in precision 'float'");
  d.check(c.training.label_smoothing == 0 || c.training.loss == LossKind::cross_entropy,
          {"training/label_smoothing", "training/loss"}, "needs loss 'cross-entropy'");
}

void validateCutList(const StrategySection& s, std::int64_t layers, Diagnostics& d) {
  const std::int64_t count = s.cuts.size();
  d.check(count == s.stages - 1, {"strategy/cuts", "strategy/stages"},
          number(s.stages) + " stages need " + counted(s.stages - 1, "cut") + ", not " + number(count));
  d.check(std::adjacent_find(s.cuts.begin(), s.cuts.end(), std::greater_equal<>{}) == s.cuts.end(),
          {"strategy/cuts"}, "cuts must increase");
  for (const std::int64_t cut : s.cuts)
    d.check(layers == 0 || (cut >= 1 && cut < layers), {"strategy/cuts", "network/layers"},
            "cut " + number(cut) + " is not inside the network (allowed 1 to " + number(layers - 1) +
                "; the network has " + number(layers) + " layers)");
}

/// See `canLearnLabels`.
void validateLearnedLabels(const SilSection& sil, Diagnostics& d) {
  const bool learned = sil.labels == LabelKind::learned;
  d.check(!learned || sil.input != StageInput::free, {"strategy/labels", "strategy/input"},
          "'learned' needs input 'relay' or 'frozen', not 'free'");
  d.check(!learned || sil.loss == StageLoss::prototype, {"strategy/labels", "strategy/loss"},
          "'learned' needs loss 'prototype', not '" + nameOf(sil.loss) + "'");
  d.check(!learned || sil.reencode != Switch::on, {"strategy/reencode", "strategy/labels"},
          "needs labels of a fixed kind, not 'learned'");
  d.check(sil.label_init != LabelKind::learned, {"strategy/label_init"},
          "labels cannot start as 'learned'; choose a fixed kind or 'auto'");
  d.check(sil.head.empty() || learnsLabels(sil), {"strategy/head", "strategy/labels"},
          "a head of layers needs labels 'learned', with loss 'prototype' and input 'relay' or 'frozen'");
  d.check(sil.head_depth <= 0 || learnsLabels(sil), {"strategy/head_depth", "strategy/labels"},
          "needs labels 'learned', with loss 'prototype' and input 'relay' or 'frozen'");
  d.check(!takesTokens(sil.head), {"strategy/head"}, "an embedding can only be the first layer of a network");
  validateLayers(sil.head, "strategy/head", "strategy/head", false, d);
}

/// Heads take parameters of later stages only if these train at the same time.
void validateCopies(const SilSection& sil, Diagnostics& d) {
  const bool relay = sil.input == StageInput::relay, learns = learnsLabels(sil);
  const std::string other_input = "needs input 'relay', not '" + nameOf(sil.input) + "'",
                    fixed_labels = "needs labels 'learned', with loss 'prototype'";
  d.check(sil.lookahead == 0 || relay, {"strategy/lookahead", "strategy/input"}, other_input);
  d.check(sil.lookahead == 0 || learns, {"strategy/lookahead", "strategy/labels"}, fixed_labels);
  d.check(sil.refresh == 0 || relay, {"strategy/refresh", "strategy/input"}, other_input);
  d.check(sil.refresh == 0 || learns, {"strategy/refresh", "strategy/labels"}, fixed_labels);
  d.check(sil.lookahead == 0 || sil.match != Match::before, {"strategy/lookahead", "strategy/match"},
          "needs match 'after', because its layers follow the activation at the cut");
}

/// In a joint step gradients cross the cuts of a relay.
void validateJointSteps(const RunConfig& c, Diagnostics& d) {
  const SilSection& sil = c.strategy.sil;
  if (sil.joint_every == 0) return;
  d.check(sil.input == StageInput::relay, {"strategy/joint_every", "strategy/input"},
          "needs input 'relay', not '" + nameOf(sil.input) + "'");
  d.check(sil.reencode != Switch::on, {"strategy/joint_every", "strategy/reencode"},
          "gradients cannot cross a cut whose values are re-encoded");
  d.check(!usesFp16(c), {"strategy/joint_every", "run/precision"},
          "stages scale their losses differently in 'fp16'; use 'bf16' or float");
}

/// Exits add log-probabilities, which the squared error does not give.
void validateExits(const RunConfig& c, Diagnostics& d) {
  const SilSection& sil = c.strategy.sil;
  if (sil.exits == Exits::none) return;
  d.check(sil.loss == StageLoss::prototype, {"strategy/exits", "strategy/loss"},
          "needs loss 'prototype', not '" + nameOf(sil.loss) + "'");
  d.check(c.training.loss == LossKind::cross_entropy, {"strategy/exits", "training/loss"},
          "needs loss 'cross-entropy', not '" + nameOf(c.training.loss) + "'");
  d.check(sil.exits != Exits::fitted || c.data.validation > 0, {"strategy/exits", "data/validation"},
          "'fitted' needs a validation set: data/validation above 0");
}

void validateStages(const RunConfig& c, Diagnostics& d) {
  const StrategySection& s = c.strategy;
  const std::int64_t layers = layerCount(c.network);
  if (s.cut_rule == CutRule::list)
    validateCutList(s, layers, d);
  else
    d.check(s.stages <= layers, {"strategy/stages", "network/layers"},
            number(s.stages) + " stages need at least as many layers, but the network has " + number(layers));
  if (s.kind != StrategyKind::sil) return;
  d.check(s.sil.mixture != Switch::on || s.sil.input == StageInput::free,
          {"strategy/mixture", "strategy/input"}, "needs input 'free', not '" + nameOf(s.sil.input) + "'");
  d.check(s.sil.reencode != Switch::on || s.sil.loss == StageLoss::prototype,
          {"strategy/reencode", "strategy/loss"}, "needs loss 'prototype', not '" + nameOf(s.sil.loss) + "'");
  validateLearnedLabels(s.sil, d);
  validateCopies(s.sil, d);
  validateJointSteps(c, d);
  validateExits(c, d);
}

/// The grid that the deck chooses for parts.
void validatePartsGrid(const StrategySection& s, Diagnostics& d) {
  const std::vector<std::int64_t>& grid = s.parts_grid.values;
  if (grid == AxisSizes{{0}}.values) return;
  const bool places = s.split == Split::spatial;
  d.check(places || s.split == Split::grid, {"strategy/parts_grid", "strategy/split"},
          "needs split 'grid' or 'spatial', not '" + nameOf(s.split) + "'");
  if (!places && s.split != Split::grid) return;
  const std::size_t axes = grid.size();
  d.check(axes == 2 || (places && axes == 3), {"strategy/parts_grid", "strategy/split"},
          "split '" + nameOf(s.split) + "' needs " + (places ? "2 or 3" : "2") + " numbers, not " +
              number(axes));
  if (axes > 3) return; // their product might overflow
  std::int64_t product = 1;
  for (const std::int64_t extent : grid) product *= extent;
  d.check(product == s.parts, {"strategy/parts_grid", "strategy/parts"},
          "the product of its numbers is " + number(product) + ", but strategy/parts is " + number(s.parts));
}

/// Ranks that share the layers of a stage must pass through it in the same order.
void validateParts(const StrategySection& s, Diagnostics& d) {
  d.check(s.kind != StrategyKind::local_sgd && s.kind != StrategyKind::hogbatch,
          {"strategy/parts", "strategy/kind"},
          "needs kind 'joint', 'pipeline' or 'sil', not '" + nameOf(s.kind) + "'");
  validatePartsGrid(s, d);
  const bool pipeline =
      s.kind == StrategyKind::pipeline || (s.kind == StrategyKind::sil && s.sil.recovery_epochs > 0);
  d.check(!pipeline || s.pipeline.schedule != PipelineSchedule::message_driven,
          {"strategy/schedule", "strategy/parts"},
          "parts need a fixed order of the microbatches: '1f1b', '1f1b-eager' or 'gpipe'");
}

/// Whoever says how to cut a network, but not the kind, does not want ranks to be replicas of it.
void validateKind(Diagnostics& d) {
  if (d.isSet("strategy/kind")) return;
  const std::vector<std::string> keys = keysOfOtherKinds();
  const auto first = std::find_if(keys.begin(), keys.end(),
                                  [&](const std::string& key) { return d.isSet("strategy/" + key); });
  if (first != keys.end())
    d.check(false, {"strategy/" + *first},
            "has no effect without strategy/kind: ranks would be replicas of the whole network");
}

} // namespace

void validate(const RunConfig& config, Diagnostics& diagnostics) {
  validateKind(diagnostics);
  validateRun(config, diagnostics);
  validateData(config, diagnostics);
  validateNetwork(config, diagnostics);
  validateOptimiser(config, diagnostics);
  const StrategyKind kind = config.strategy.kind;
  if (kind == StrategyKind::sil || kind == StrategyKind::pipeline) validateStages(config, diagnostics);
  validateHogbatch(config, diagnostics);
  validateRanks(config, diagnostics);
}

void validateRanks(const RunConfig& config, Diagnostics& diagnostics) {
  const StrategySection& strategy = config.strategy;
  if (strategy.parts > 1) validateParts(strategy, diagnostics);
  diagnostics.check(strategy.replicas <= config.training.batch, {"strategy/replicas", "training/batch"},
                    number(strategy.replicas) + " replicas cannot share a batch of " +
                        number(config.training.batch) + " samples");
}

} // namespace partita
