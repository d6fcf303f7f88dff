#include "partita/strategy/local_stage.hpp"

#include "partita/data/order.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/strategies/sil.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/sil/starting_values.hpp"

namespace partita {

namespace {

/// The part's share of the values of the whole stage.
std::vector<Real> valuesOfPart(const std::vector<Real>& values, const StagePlan& whole,
                               const StagePlan& own) {
  std::vector<Real> found(static_cast<std::size_t>(own.storedValues()));
  const std::vector<StageTensor> tensors = parameterTensors(whole.allLayers());
  for (const StageTensor& tensor : parameterTensors(own.allLayers())) {
    const Real* const from = values.data() + findTensor(tensors, tensor.layer, tensor.name)->offset;
    Real* to = found.data() + tensor.offset;
    for (const TensorSlice& slice : tensor.slices) {
      for (const SliceRun& run : runsOf(slice))
        std::copy_n(from + run.in_whole, run.count, to + run.in_slice);
      to += slice.size();
    }
  }
  return found;
}

/// Labels change the starting values of the whole stage; a part then takes its share.
std::vector<Real> startingValues(const RunConfig& config, const StagePlan& plan, const StagePlan& own,
                                 const SilLabels& labels, std::int64_t classes) {
  const auto seed = static_cast<std::uint64_t>(config.run.seed);
  if (planOf(config.strategy).gradientsCross()) return Stage::initialValues(own, seed);
  std::vector<Real> values = Stage::initialValues(plan, seed);
  startFromLabels(config, plan, labels, classes, values);
  return config.strategy.parts > 1 ? valuesOfPart(values, plan, own) : values;
}

std::unique_ptr<Loss> makeStageLoss(const RunConfig& config, const StagePlan& plan, const SilLabels& labels,
                                    std::int64_t classes, std::int64_t capacity) {
  if (!plan.last() && planOf(config.strategy).gradientsCross()) return nullptr;
  if (!plan.last())
    return comparesWithLabels(config.strategy) ? makeCrossEntropy(0.0) : makeLabelMse(labels, capacity);
  if (config.training.loss == LossKind::mse) return makeLabelMse(makeOneHotLabels(classes), capacity);
  if (plan.class_parts.divided())
    return makeDividedCrossEntropy(config.training.label_smoothing, plan.class_parts, capacity);
  return makeCrossEntropy(config.training.label_smoothing);
}

StageStorage storageOf(const RunConfig& config, const GivenMemory& given) {
  return {config.run.precision, placementOf(config.optimiser), given};
}

} // namespace

Pass trainingPass(const RunConfig& config, const Grid& grid, std::int64_t step) {
  Pass pass;
  pass.step = static_cast<std::uint64_t>(step);
  pass.first_row = shareOf(config.training.batch, grid.replica(), grid.replicas()).begin;
  return pass;
}

std::int64_t passCapacity(const RunConfig& config, int replicas) {
  return planOf(config.strategy).passRows(config.strategy, config.training.batch, replicas);
}

SilLabels labelsOfCut(const RunConfig& config, std::int64_t classes, std::int64_t width, int cut,
                      const ImageLayout& layout) {
  const LabelChoice chosen = labelsOf(config.strategy, width, classes);
  return makeSilLabels(chosen.kind, chosen.kappa, chosen.temperature, classes, width,
                       static_cast<std::uint64_t>(config.run.seed), cut, layout);
}

LocalStage::LocalStage(const RunConfig& config, const StagePlan& whole, const StagePlan& own,
                       std::int64_t classes, std::int64_t capacity, const GivenMemory& given)
    : labels(whole.last() || planOf(config.strategy).gradientsCross()
                 ? SilLabels{}
                 : labelsOfCut(config, classes, whole.labelWidth(), whole.index,
                               whole.head.empty() ? layoutOf(whole.layers.back().out) : ImageLayout{})),
      stage(own, startingValues(config, whole, own, labels, classes), capacity, storageOf(config, given)),
      head_tape(stage.makeHeadTape(capacity)),
      reencode(whole.last() || !joinedForm(config.strategy).reencodes
                   ? nullptr
                   : std::make_unique<Reencode>(labels, whole.index, capacity * whole.positions)),
      tape(makeTape(capacity)), score(capacity * whole.positions),
      loss(makeStageLoss(config, own, labels, classes, capacity * whole.positions)),
      _real_output(own.copiesOutput()
                       ? makeMatrix("partita::LocalStage::real_output", capacity, own.outputs())
                       : Matrix()) {
  stage.setSeed(static_cast<std::uint64_t>(config.run.seed));
  if (stage.hasHead()) {
    labels = {}; // they learn as parameters of the stage
  } else if (labels.classes() > 0 && comparesWithLabels(config.strategy)) {
    decoder = std::make_unique<LabelDecoder>(labels, capacity * whole.positions);
  }
}

TypedMatrix LocalStage::predict(const ExecSpace& space, const Pass& pass, const TypedMatrix& output) {
  if (stage.hasHead()) return stage.forwardHead(space, pass, output.real(), head_tape);
  if (decoder == nullptr) return output;
  const Matrix logits = decoder->forward(space, perLabel(output.real()));
  return Matrix(logits.data(), output.rows, logits.size() / static_cast<std::size_t>(output.rows));
}

TypedMatrix LocalStage::lossGradient(const ExecSpace& space, const Pass& pass, const TypedMatrix& output,
                                     const Targets& targets, const DeviceFactor& weight,
                                     const Stage::GradientReady& ready) {
  const TypedMatrix grad = stage.gradientFor(output), logits = predict(space, pass, output);
  const bool decodes = decoder != nullptr;
  const TypedMatrix logit_gradient = stage.hasHead() ? stage.logitGradient(logits.real())
                                     : decodes       ? decoder->logitGradient(perLabel(output.real()))
                                                     : grad;
  loss->evaluate(space, logits, targets, weight, logit_gradient, score);
  if (stage.hasHead())
    stage.backwardHead(space, pass, output.real(), head_tape, logit_gradient.real(), ready);
  if (decodes) decoder->backward(space, logit_gradient.real(), perLabel(grad.real()));
  return grad;
}

JoinedTape LocalStage::makeTape(std::int64_t capacity) const {
  JoinedTape made;
  static_cast<Tape&>(made) = stage.makeTape(capacity);
  if (reencode == nullptr) return made;
  made.encoded =
      TypedRows("partita::LocalStage::encoded", stage.outputPrecision(), capacity, stage.outputs());
  made.posterior = makeMatrix("partita::LocalStage::posterior", capacity * stage.plan().positions,
                              reencode->savedValues());
  return made;
}

void LocalStage::connectReplicas(Grid& grid) {
  const auto statistics = static_cast<std::int64_t>(stage.statistics().extent(0));
  if (grid.replicas() == 1 || statistics == 0) return;
  // A layer sums at most two values per channel and their count at once.
  replicas = std::make_unique<ReplicaReduce>(grid.peers(), grid.paths().reductions, statistics + 1,
                                             grid.traffic.between_replicas);
  stage.setReplicas(replicas.get());
}

void LocalStage::connectParts(Grid& grid) {
  if (grid.plan().parts == 1) return;
  parts = std::make_unique<PartExchange>(grid.along(Axis::part), grid.paths().messages, grid.traffic);
  stage.setParts(parts.get());
  if (loss != nullptr) loss->share(*parts);
}

Matrix LocalStage::perLabel(const Matrix& values) const {
  const auto width = static_cast<std::size_t>(labels.width());
  return Matrix(values.data(), values.size() / width, width);
}

TypedMatrix LocalStage::outputForLoss(const ExecSpace& space, const Tape& on) const {
  const TypedMatrix stored = on.output();
  if (!stage.plan().copiesOutput()) return stored;
  const Matrix copy(_real_output.data(), stored.rows, stored.columns);
  copyValues(space, stored, copy);
  return copy;
}

TypedMatrix LocalStage::forwardJoined(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                                      JoinedTape& on) {
  stage.forward(space, pass, in, on);
  encode(space, pass, on);
  return on.joinedOutput();
}

void LocalStage::encode(const ExecSpace& space, const Pass& pass, const JoinedTape& on) {
  if (reencode == nullptr) return;
  const Matrix real = outputForLoss(space, on).real(), in = perLabel(real);
  const TypedMatrix joined = on.joinedOutput();
  const bool in_place = joined.half(); // the product has a result in `Real`
  reencode->forward(space, pass, in, in_place ? in : perLabel(joined.real()),
                    topRows(on.posterior, static_cast<std::int64_t>(in.extent(0))));
  if (in_place) copyValues(space, real, joined);
}

void LocalStage::backwardJoined(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                                const JoinedTape& on, const TypedMatrix& grad_out, const TypedMatrix& grad_in,
                                const Stage::GradientReady& ready) {
  TypedMatrix grad = grad_out;
  if (reencode != nullptr) {
    const Matrix before = stage.outputGradient(on.output().rows);
    if (grad_out.half()) copyValues(space, grad_out, before);
    const Matrix to = perLabel(before), from = grad_out.half() ? to : perLabel(grad_out.real());
    reencode->backward(space, pass, to, to, topRows(on.posterior, static_cast<std::int64_t>(to.extent(0))),
                       from, to);
    grad = before;
  }
  stage.skipHead(space, ready);
  stage.backward(space, pass, in, on, grad, grad_in, ready);
}

std::vector<std::unique_ptr<LocalStage>> makeLocalStages(const RunConfig& config, const Partition& partition,
                                                         Grid& grid, std::int64_t classes,
                                                         const GivenMemory& given) {
  std::vector<std::unique_ptr<LocalStage>> stages;
  for (int index = grid.firstStage(); index < grid.endStage(); ++index) {
    const StagePlan& whole = partition.stages[static_cast<std::size_t>(index)];
    stages.push_back(std::make_unique<LocalStage>(
        config, whole, ownStage(whole, config.strategy, grid.part()), classes,
        passCapacity(config, grid.replicas()), stages.empty() ? given : GivenMemory{}));
    stages.back()->connectParts(grid);
    if (!planOf(config.strategy).replicasDiffer(config.strategy)) stages.back()->connectReplicas(grid);
  }
  return stages;
}

} // namespace partita
