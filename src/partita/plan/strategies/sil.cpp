#include "partita/plan/strategies/sil.hpp"

#include "partita/config/names.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/parts/part_traffic.hpp"
#include "partita/plan/strategies/sil_heads.hpp"
#include "partita/plan/strategies/table.hpp"

#include <algorithm>
#include <stdexcept>

namespace partita {

bool mixesLabels(const SilSection& sil) {
  if (sil.input != StageInput::free || sil.mixture == Switch::off) return false;
  return sil.mixture == Switch::on || sil.loss == StageLoss::prototype;
}

bool startsWithLabels(const SilSection& sil) {
  if (sil.label_start != Switch::automatic) return sil.label_start == Switch::on;
  return sil.input != StageInput::free && sil.loss == StageLoss::prototype;
}

namespace {

void requireOwnLosses(const StrategySection& strategy) {
  if (planOf(strategy).gradientsCross()) throw std::logic_error("stages without a loss of their own");
}

} // namespace

bool comparesWithLabels(const StrategySection& strategy) {
  requireOwnLosses(strategy);
  return strategy.sil.loss == StageLoss::prototype;
}

namespace {

/// The kind of fixed labels, or of the initial values of labels that learn, as far as the deck says it.
LabelKind namedKind(const SilSection& sil) {
  const bool learns = sil.labels == LabelKind::automatic || sil.labels == LabelKind::learned;
  return learns ? sil.label_init : sil.labels;
}

} // namespace

LabelKind labelKind(const SilSection& sil, std::int64_t width, std::int64_t classes) {
  const LabelKind kind = namedKind(sil);
  if (kind != LabelKind::automatic) return kind;
  return width >= classes ? LabelKind::orthogonal : LabelKind::gaussian;
}

LabelChoice labelsOf(const StrategySection& strategy, std::int64_t width, std::int64_t classes) {
  requireOwnLosses(strategy);
  const SilSection& sil = strategy.sil;
  return {labelKind(sil, width, classes), sil.kappa, sil.temperature};
}

std::string keptStateOf(ParameterCopy::Kind kind) {
  return kind == ParameterCopy::Kind::first_layer ? "sent_first_layer" : "sent_last_weights";
}

namespace {

bool reencodes(const SilSection& sil) {
  if (sil.reencode != Switch::automatic) return sil.reencode == Switch::on;
  return sil.input == StageInput::free && sil.loss == StageLoss::prototype;
}

/// Only a last stage may have no parameters, and only in a network that also trains as a whole.
void checkParameters(const SilSection& sil, const StagePlan& stage) {
  const bool whole = stage.first() || sil.recovery_epochs > 0 || sil.joint_every > 0;
  if (stage.parameters() > 0 || (stage.last() && whole)) return;
  throw UserError("strategy/cuts: stage " + std::to_string(stage.index + 1) + " has no parameters to learn");
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
                  ", cannot be averaged over windows to the positions of its output, " +
                  toText(stage.layers.back().out));
}

std::int64_t trainingBuffers(const StageBuffers& buffers, const StrategySection& section,
                             std::int64_t optimiser) {
  switch (section.sil.input) {
  case StageInput::frozen:
    return section.stages > 1 ? buffers.ofFrozen(optimiser) : buffers.ofRelay();
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
    flops += effortWithInputGradient(stage.decoder).flops + effortWithInputGradient(stage.head).flops;
  }
  for (const Effort& stage : partition.local) all += stage.flops;
  return formatted(
      "# labels learn with the stages%s; their heads have %lld parameters and %.1f %% of the FLOPs",
      chosen ? " (strategy/labels = \"auto\", loss prototype)" : "", static_cast<long long>(parameters),
      100.0 * flops / all);
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

/// Effective decks have every key, so a default says nothing.
void warnOfUnused(const SilSection& sil, std::vector<std::string>& warnings) {
  const bool mixed = mixesLabels(sil);
  if (sil.noise != SilSection().noise && (mixed || sil.input != StageInput::free))
    warnings.push_back(std::string("strategy/noise has no effect, because the inputs are ") +
                       (mixed ? "mixtures of labels" : "outputs of the previous stage"));
  if (sil.label_pool != SilSection().label_pool && !learnsLabels(sil))
    warnings.emplace_back("strategy/label_pool has no effect, because the labels are fixed");
}

/// Trains stages by synthetic intermediate labels, optionally followed by a joint recovery.
class SilPlan final : public StrategyPlan {
 public:
  void normalise(StrategySection&) const override {}

  bool gradientsCross() const override { return false; }
  JoinedForm joinedForm(const StrategySection& section) const override {
    const SilSection& sil = section.sil;
    return {reencodes(sil), sil.exits != Exits::none, sil.exits == Exits::fitted};
  }
  bool drawsTargets(const StrategySection& section) const override { return !learnsLabels(section.sil); }
  bool sameTargets(const StrategySection& one, const StrategySection& other) const override {
    const SilSection &a = one.sil, &b = other.sil;
    return learnsLabels(a) || (namedKind(a) == namedKind(b) && a.kappa == b.kappa);
  }

  /// Fixed signed labels cannot be reached through a ReLU. A first stage of one layer keeps its activation if
  /// the loss is a cross-entropy, because otherwise it would be a linear model.
  bool matchedBefore(const StrategySection& section, std::int64_t weight_layers) const override {
    const SilSection& sil = section.sil;
    if (sil.match != Match::automatic) return sil.match == Match::before;
    if (learnsLabels(sil) || (weight_layers == 1 && sil.loss == StageLoss::prototype)) return false;
    switch (namedKind(sil)) {
    case LabelKind::uniform:
    case LabelKind::binary:
    case LabelKind::sparse:
    case LabelKind::block:
      return false;
    default:
      return true;
    }
  }

  bool wholeAtCuts(const StrategySection& section) const override {
    return !learnsLabels(section.sil) || section.sil.reconstruct > 0.0;
  }
  void checkEarlyEnd(const StrategySection& section, int wanted) const override {
    if (section.sil.loss == StageLoss::mse)
      throw UserError("--stages " + std::to_string(wanted) +
                      R"(: stages trained with strategy/loss = "mse" give no logits; "prototype" stages do)");
  }
  /// What is made of labels, and what `frozen` reads from its file.
  bool realInputs(const StrategySection& section) const override {
    return section.sil.input != StageInput::relay;
  }
  bool usesMicrobatches(const StrategySection& section) const override {
    return section.sil.recovery_epochs > 0;
  }
  std::int64_t passRows(const StrategySection&, std::int64_t batch, std::int64_t replicas) const override {
    return largestShare(batch, replicas);
  }

  void addOwnLoss(const StrategySection& section, const std::vector<LayerPlan>& layers,
                  StagePlan& stage) const override {
    const SilSection& sil = section.sil;
    stage.transport = sil.transport;
    if (stage.last()) return;
    stage.reconstruct = sil.reconstruct;
    StageHead head = planStageHead(sil, layers, stage.lastLayer() + 1);
    stage.head = std::move(head.layers);
    stage.copied = head.copied;
    StageDecoder decoder =
        planStageDecoder(sil, stage.layers.front().in, stage.layers.back(), stage.sequence);
    stage.decoder = std::move(decoder.layers);
    stage.decoder_window = decoder.window;
  }

  std::vector<ParameterCopy> copies(const StrategySection& section,
                                    const std::vector<StagePlan>& stages) const override {
    return parameterCopies(section.sil, stages);
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

  Effort headEffort(const StrategySection& section, const std::vector<LayerPlan>& layers,
                    std::int64_t last) const override {
    if (last == static_cast<std::int64_t>(layers.size())) return {};
    return effortWithInputGradient(planStageHead(section.sil, layers, last).layers);
  }

  Effort extraEffort(const StrategySection& section, const std::vector<LayerPlan>& layers, std::int64_t first,
                     std::int64_t last, int index) const override {
    const SilSection& sil = section.sil;
    const LayerPlan& end = layers[last - 1];
    const double label_product = 2.0 * static_cast<double>(end.classes);
    Effort effort;
    if (last < static_cast<std::int64_t>(layers.size())) {
      const bool sequence = isSequence(layers.back().out);
      effort += effortWithInputGradient(planStageDecoder(sil, layers[first].in, end, sequence).layers);
      if (!learnsLabels(sil) && sil.loss == StageLoss::prototype) // logits, their gradient
        effort.flops += 2.0 * label_product * static_cast<double>(end.outputs());
    }
    if (index > 0 && mixesLabels(sil))
      effort.flops += label_product * static_cast<double>(layers[first].inputs());
    return effort;
  }

  void checkStages(const StrategySection& section, const std::vector<StagePlan>& stages,
                   std::int64_t classes) const override {
    checkParts(section, stages);
    for (const StagePlan& stage : stages) checkParameters(section.sil, stage);
    for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
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
    if (reencodes(sil)) values += rows * stage.labelValues();             // gradient of the posterior
    return values;
  }

  std::int64_t extraTapeValues(const StagePlan& stage, const StrategySection& section) const override {
    return stage.last() || !reencodes(section.sil) ? 0
                                                   : stage.layers.back().outputRoom() + stage.labelValues();
  }

  /// The recovery begins after the stages have been trained and their buffers have been freed.
  void addTraining(StageMemory& memory, const StageBuffers& buffers, const StrategySection& section,
                   std::int64_t more_tapes) const override {
    const std::int64_t recovery = usesMicrobatches(section) ? more_tapes + buffers.ofPipeline() : 0;
    memory.buffers = std::max(trainingBuffers(buffers, section, memory.optimiser), recovery);
  }

  void setPhases(const StrategySection& section, RunLength& length) const override {
    length.recovery_steps = section.sil.recovery_epochs * length.per_epoch;
    if (section.sil.input == StageInput::frozen) length.turns = static_cast<int>(section.stages);
  }

  std::vector<std::pair<std::string, StepKind>> otherSteps(const StrategySection& section) const override {
    std::vector<std::pair<std::string, StepKind>> steps;
    if (section.sil.joint_every > 0) steps.emplace_back("joint step", StepKind::both);
    if (section.sil.recovery_epochs > 0) steps.emplace_back("step of the recovery", StepKind::joined);
    return steps;
  }

  std::string course(const StrategySection& section) const override { return nameOf(section.sil.input); }

  PlanNotes notes(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                  std::int64_t real_bytes) const override {
    PlanNotes notes;
    notes.lines = trafficNotes(config, partition, grid, real_bytes);
    if (config.run.trace > 0 && !usesMicrobatches(config.strategy))
      notes.warnings.emplace_back("run/trace has no effect: without strategy/recovery_epochs, 'sil' has no "
                                  "schedule to trace");
    if (grid.stages == 1) return notes;
    notes.lines.push_back(speedupText(allowedSpeedup(config, partition, grid), grid) +
                          " if each rank has one stage and all train at once");
    const SilSection& sil = config.strategy.sil;
    notes.lines.push_back(labelNote(sil, partition));
    if (sil.transport > 0.0 && !hasResidual(partition))
      notes.warnings.emplace_back(
          "strategy/transport has no effect, because the network has no residual layers");
    warnOfUnused(sil, notes.warnings);
    if (sil.exits == Exits::fitted && config.data.testsOnValidationSet())
      notes.warnings.emplace_back("strategy/exits = \"fitted\": the weights are fitted to the validation "
                                  "set, on which the network is also "
                                  "tested; set data/test_fraction for a test set of its own");
    const std::int64_t first_layers = weightLayers(partition.stages.front().layers);
    if (sil.loss == StageLoss::mse && first_layers < 3) {
      notes.warnings.emplace_back(
          "with strategy/loss = \"mse\" a first stage of fewer than 3 layers with weights loses much "
          "accuracy; \"prototype\" needs 2");
    } else if (first_layers < 2 && !learnsLabels(sil)) {
      notes.warnings.emplace_back(
          "a first stage with weights in only one layer learns little from the data, and later stages cannot "
          "fully compensate for that; cut after the second such layer or later");
    }
    return notes;
  }

  StageAdvice adviceFor(const StrategySection& section) const override {
    const bool cut_start = section.sil.initialisation == CutInitialisation::cut;
    return {cut_start ? "try more layers in it, a larger strategy/kappa or another learning rate"
                      : "its labels vary too little compared with its initial outputs (try "
                        "strategy/initialisation = \"cut\" or a larger strategy/kappa)",
            std::string("train for more epochs, cut into fewer stages, or set strategy/exits = ") +
                (section.sil.exits == Exits::none ? "\"sum\"" : "\"none\"")};
  }

  std::vector<std::pair<std::string, std::string>> facts(const StrategySection& section) const override {
    const SilSection& sil = section.sil;
    const LabelKind kind = learnsLabels(sil) ? LabelKind::learned : namedKind(sil);
    return {{"input", nameOf(sil.input)}, {"labels", nameOf(kind)}, {"exits", nameOf(sil.exits)}};
  }
};

} // namespace

const StrategyPlan& silPlan() {
  static const SilPlan plan;
  return plan;
}

} // namespace partita
