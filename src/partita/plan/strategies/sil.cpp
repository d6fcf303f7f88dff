#include "partita/plan/strategies/sil.hpp"

#include "partita/config/names.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/layers/table.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/strategies/table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

namespace partita {

bool mixesLabels(const SilSection& sil) {
  if (sil.input != StageInput::free || sil.mixture == Switch::off) return false;
  return sil.mixture == Switch::on || sil.loss == StageLoss::prototype;
}

bool startsWithLabels(const SilSection& sil) {
  if (sil.label_start != Switch::automatic) return sil.label_start == Switch::on;
  return sil.input == StageInput::relay && sil.loss == StageLoss::prototype;
}

bool reencodes(const StrategySection& strategy) {
  const SilSection* sil = planOf(strategy).labels(strategy);
  if (sil == nullptr) return false;
  if (sil->reencode != Switch::automatic) return sil->reencode == Switch::on;
  return sil->input == StageInput::free && sil->loss == StageLoss::prototype;
}

bool addsExits(const StrategySection& strategy) {
  const SilSection* sil = planOf(strategy).labels(strategy);
  return sil != nullptr && sil->exits != Exits::none;
}

bool matchedBefore(const StrategySection& strategy, std::int64_t weight_layers) {
  const SilSection* sil = planOf(strategy).labels(strategy);
  if (sil == nullptr) return false;
  if (sil->match != Match::automatic) return sil->match == Match::before;
  if (learnsLabels(*sil) || (weight_layers == 1 && sil->loss == StageLoss::prototype)) return false;
  switch (sil->labels) {
  case LabelKind::uniform:
  case LabelKind::binary:
  case LabelKind::sparse:
  case LabelKind::block:
    return false;
  default:
    return true;
  }
}

LabelKind labelKind(const SilSection& sil, std::int64_t width, std::int64_t classes) {
  const bool learns = sil.labels == LabelKind::automatic || sil.labels == LabelKind::learned;
  const LabelKind kind = learns ? sil.label_init : sil.labels;
  if (kind != LabelKind::automatic) return kind;
  return width >= classes ? LabelKind::orthogonal : LabelKind::gaussian;
}

std::string keptStateOf(ParameterCopy::Kind kind) {
  return kind == ParameterCopy::Kind::first_layer ? "sent_first_layer" : "sent_last_weights";
}

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

} // namespace

bool labelsBeforeCountUnits(const SilSection& sil, const Shape& cut) {
  return !learnsLabels(sil) ||
         (sil.head.empty() && sil.head_depth <= 0 && sil.lookahead == 0 && poolingWindow(sil, cut) == 1);
}

namespace {

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

/// Layers that show the head what the rest of the network makes of an image: those that change its channels
/// or its size, and then the last residual layers, `depth` layers with parameters in all. Each fits onto what
/// is before it, although layers between them are left out.
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
                    toText(labels.extents) + "; a head that ends with as many values helps");
  return copy;
}

double flopsOf(const std::vector<LayerPlan>& head) {
  double flops = 0.0;
  for (const LayerPlan& layer : head)
    flops += layer.forwardFlops() + layer.weightFlops() + layer.inputFlops();
  return flops;
}

/// What a stage reconstructs of its input, and how.
struct Reconstructed {
  std::optional<LayerSpec> decoder; ///< none: tokens cannot be reconstructed
  std::int64_t window = 1;          ///< places of the input that are averaged; 0: none fits
};

/// A linear map of the output at each place, or of the whole output if the input or the output has no places.
Reconstructed reconstructed(const Shape& in, const Shape& out, std::int64_t positions) {
  Reconstructed found;
  LayerSpec decoder;
  if (positions > 1) {
    if (!isSequence(in)) return found;
    decoder.dense.units = in[1];
  } else if (in.size() > 2 && in.size() == out.size()) {
    found.window = in[1] / out[1];
    for (std::size_t axis = 1; axis < in.size(); ++axis)
      if (found.window > 0 && in[axis] / found.window != out[axis]) found.window = 0;
    decoder = pointwiseConvolution(in[0], in.size() == 4);
  } else {
    decoder.dense.units = valuesOf(in);
  }
  found.decoder = decoder;
  return found;
}

/// Labels of tokens are matched at each position.
void checkPositions(const StagePlan& stage) {
  const LayerPlan& last = stage.layers.back();
  const bool fits = stage.positions == 1 || (isSequence(last.out) && last.out[0] == stage.positions);
  if (fits) return;
  throw UserError("strategy/cuts: after " + last.name() + " a sample has the shape " + toText(last.out) +
                  "; a network that predicts " + std::to_string(stage.positions) +
                  " tokens can be cut only where it has as many positions");
}

void checkReconstruction(const StagePlan& stage) {
  if (stage.decoder_window > 0) return;
  throw UserError("strategy/reconstruct: the input of stage " + std::to_string(stage.index + 1) + ", " +
                  toText(stage.layers.front().in) +
                  ", cannot be averaged over windows to the places of its output, " +
                  toText(stage.layers.back().out));
}

std::int64_t trainingBuffers(const StageBuffers& buffers, const StrategySection& section) {
  switch (section.sil.input) {
  case StageInput::frozen:
    return section.stages > 1 ? buffers.ofFrozen() : buffers.ofRelay();
  case StageInput::free:
    return buffers.ofFreeInput(mixesLabels(section.sil));
  case StageInput::relay:
    break;
  }
  return buffers.ofRelay() + buffers.ofCopies() + (section.sil.joint_every > 0 ? buffers.ofJointSteps() : 0);
}

/// Which labels the stages have, and why.
std::string labelNote(const SilSection& sil, const Partition& partition) {
  const bool chosen = sil.labels == LabelKind::automatic;
  if (!learnsLabels(sil)) {
    const std::string kind = nameOf(labelKind(sil, partition.stages.front().labelWidth(),
                                              partition.stages.front().layers.back().classes));
    const char* reason = sil.input == StageInput::free ? "input free makes inputs from them"
                         : sil.loss == StageLoss::mse  ? "loss mse cannot learn them"
                                                       : "re-encoding needs fixed ones";
    return "# labels are fixed (" + kind + ")" + (chosen ? std::string(": ") + reason : "");
  }
  std::int64_t parameters = 0;
  double flops = 0.0, all = 0.0;
  for (const StagePlan& stage : partition.stages) {
    parameters += countParameters(stage.decoder) + countParameters(stage.head);
    flops += flopsOf(stage.decoder) + flopsOf(stage.head);
  }
  for (const double stage : partition.local_flops) all += stage;
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(),
                "# labels learn with the stages%s; their heads have %lld parameters and %.1f %% of the FLOPs",
                chosen ? " (strategy/labels = \"auto\", loss prototype)" : "",
                static_cast<long long>(parameters), 100.0 * flops / all);
  return line.data();
}

bool hasResidual(const std::vector<LayerPlan>& layers) {
  return std::any_of(layers.begin(), layers.end(), [](const LayerPlan& layer) {
    return layer.rules().residual() || hasResidual(layer.body);
  });
}

bool hasResidual(const Partition& partition) {
  return std::any_of(partition.stages.begin(), partition.stages.end(),
                     [](const StagePlan& stage) { return hasResidual(stage.layers); });
}

/// Trains stages by synthetic intermediate labels, optionally followed by a joint recovery.
class SilPlan final : public StrategyPlan {
 public:
  void normalise(StrategySection&) const override {}

  bool gradientsCross() const override { return false; }
  const SilSection* labels(const StrategySection& section) const override { return &section.sil; }
  bool usesMicrobatches(const StrategySection& section) const override {
    return section.sil.recovery_epochs > 0;
  }
  std::int64_t passRows(std::int64_t share, std::int64_t) const override { return share; }

  std::pair<std::vector<LayerPlan>, std::int64_t> head(const StrategySection& section,
                                                       const std::vector<LayerPlan>& layers,
                                                       std::int64_t end) const override {
    const SilSection& sil = section.sil;
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

  void addDecoder(const StrategySection& section, StagePlan& stage) const override {
    if (section.sil.reconstruct == 0.0) return;
    const LayerPlan& last = stage.layers.back();
    const Reconstructed found = reconstructed(stage.layers.front().in, last.out, stage.positions);
    stage.decoder_window = found.window;
    if (found.window == 0) return; // `checkStages` reports it, if this stage is really wanted
    if (found.decoder) stage.decoder = planDecoder(*found.decoder, last);
  }

  std::vector<ParameterCopy> copies(const StrategySection& section,
                                    const std::vector<StagePlan>& stages) const override {
    std::vector<ParameterCopy> copies;
    for (const StagePlan& stage : stages) {
      if (stage.copied > 0) copies.push_back(copyOfNext(section.sil, stage));
      if (!stage.last() && section.sil.refresh > 0)
        copies.push_back(copyOfLast(section.sil, stage, stages.back()));
    }
    return copies;
  }
  std::vector<std::string> keptStates(const StrategySection&, const StagePlan& stage) const override {
    std::vector<std::string> names;
    for (const ParameterCopy& copy : stage.copies) {
      const std::string name = keptStateOf(copy.kind);
      if (copy.from_stage == stage.index && std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
    }
    return names;
  }

  double extraFlops(const StrategySection& section, const std::vector<LayerPlan>& layers, std::int64_t first,
                    std::int64_t last, int index) const override {
    const std::int64_t count = layers.size();
    const double label_product = 2.0 * static_cast<double>(layers.back().classes);
    double flops = 0.0;
    if (last < count && learnsLabels(section.sil)) {
      flops += flopsOf(head(section, layers, last).first);
    } else if (last < count && section.sil.loss == StageLoss::prototype) {
      flops +=
          2.0 * label_product * static_cast<double>(layers[last - 1].outputs()); // logits, their gradient
    }
    if (last < count && section.sil.reconstruct > 0.0) { // cuts that do not fit are refused later
      const LayerPlan& end = layers[last - 1];
      const std::int64_t positions = isSequence(layers.back().out) ? layers.back().out[0] : 1;
      const Reconstructed found = reconstructed(layers[first].in, end.out, positions);
      if (found.decoder) flops += flopsOf(planDecoder(*found.decoder, end));
    }
    if (index > 0 && mixesLabels(section.sil))
      flops += label_product * static_cast<double>(layers[first].inputs());
    return flops;
  }

  void checkStages(const StrategySection& section, const std::vector<StagePlan>& stages,
                   std::int64_t classes) const override {
    for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
      if (stages[i].parameters() == 0)
        throw UserError("strategy/cuts: stage " + std::to_string(i + 1) + " has no parameters to learn");
      checkPositions(stages[i]);
      checkReconstruction(stages[i]);
      if (!stages[i].head.empty() && stages[i].head.back().outputs() != stages[i].labelValues())
        throw UserError("strategy/head: the layers must keep the " + std::to_string(stages[i].positions) +
                        " positions of a sequence");
      const std::int64_t width = stages[i].labelWidth();
      const LabelKind kind = labelKind(section.sil, width, classes);
      const bool wide = kind == LabelKind::orthogonal || kind == LabelKind::etf || kind == LabelKind::block;
      if (wide && width < classes) {
        throw UserError("strategy/labels: orthogonal, etf and block labels need at least as many units at a "
                        "cut as there are classes; stage " +
                        std::to_string(i + 1) + " ends with " + std::to_string(width) + " units for " +
                        std::to_string(classes) +
                        " classes (choose gaussian, sign or uniform, or another cut)");
      }
    }
  }

  std::int64_t extraLossValues(const StagePlan& stage, const RunConfig& config,
                               std::int64_t rows) const override {
    const SilSection& sil = config.strategy.sil;
    const bool mse = stage.last() ? config.training.loss == LossKind::mse : sil.loss == StageLoss::mse;
    std::int64_t values = 0;
    if (mse && !stage.first() && mixesLabels(sil)) values += rows * stage.outputs(); // means of mixed labels
    if (stage.last() || !stage.head.empty()) return values;
    values += stage.layers.back().classes * (2 * stage.labelWidth() + 1); // labels, centred, half squares
    values += (mse ? 1 : 2) * rows * stage.labelValues();                 // products; logits and gradient
    if (reencodes(config.strategy)) values += rows * stage.labelValues(); // gradient of the posterior
    return values;
  }

  std::int64_t extraTapeValues(const StagePlan& stage, const StrategySection& section) const override {
    return stage.last() || !reencodes(section) ? 0 : stage.outputs() + stage.labelValues();
  }

  /// The recovery begins after the stages have been trained and their buffers have been freed.
  void addTraining(StageMemory& memory, const StageBuffers& buffers, const StrategySection& section,
                   std::int64_t more_tapes) const override {
    const std::int64_t recovery = usesMicrobatches(section) ? more_tapes + buffers.ofPipeline() : 0;
    memory.buffers = std::max(trainingBuffers(buffers, section), recovery);
  }

  void setPhases(const StrategySection& section, RunLength& length) const override {
    length.recovery_steps = section.sil.recovery_epochs * length.per_epoch;
    if (section.sil.input == StageInput::frozen) length.turns = static_cast<int>(section.stages);
  }

  std::string course(const StrategySection& section) const override { return nameOf(section.sil.input); }

  PlanNotes notes(const RunConfig& config, const Partition& partition, const GridPlan& grid) const override {
    PlanNotes notes;
    if (grid.stages == 1) return notes;
    std::array<char, 128> line{};
    std::snprintf(
        line.data(), line.size(),
        "# FLOPs allow a speed-up of %.2f over one rank if each rank has one stage and all train at once",
        partition.allowedSpeedup());
    notes.lines.emplace_back(line.data());
    notes.lines.push_back(labelNote(config.strategy.sil, partition));
    if (config.strategy.sil.transport > 0.0 && !hasResidual(partition))
      notes.warnings.emplace_back(
          "strategy/transport has no effect, because the network has no residual layers");
    const std::size_t first_layers = partition.stages.front().layers.size();
    if (config.strategy.sil.loss == StageLoss::mse && first_layers < 3) {
      notes.warnings.emplace_back(
          "with strategy/loss = \"mse\" a first stage of fewer than 3 layers loses much accuracy; "
          "\"prototype\" needs 2");
    } else if (first_layers < 2 && !learnsLabels(config.strategy.sil)) {
      notes.warnings.emplace_back(
          "a first stage of one layer learns little from the data, and later stages cannot fully compensate "
          "for that; cut after the second layer or later, for example strategy/cuts=[2,...]");
    }
    return notes;
  }

  std::vector<std::pair<std::string, std::string>> facts(const StrategySection& section) const override {
    const SilSection& sil = section.sil;
    const LabelKind kind = learnsLabels(sil) ? LabelKind::learned : sil.labels;
    return {{"input", nameOf(sil.input)}, {"labels", nameOf(kind)}, {"exits", nameOf(sil.exits)}};
  }
};

} // namespace

const StrategyPlan& silPlan() {
  static const SilPlan plan;
  return plan;
}

} // namespace partita
