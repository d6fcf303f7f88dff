#include "partita/plan/stage_memory.hpp"

#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/plan/sum_buckets.hpp"

#include <algorithm>

namespace partita {

StageRows::StageRows(const StrategySection& strategy, const StagePlace& place, std::int64_t batch)
    : share(largestShare(batch, place.replicas)), microbatch(microbatchRows(strategy, share)),
      pass(planOf(strategy).passRows(strategy, batch, place.replicas)) {
  const std::int64_t count = microbatchesOf(strategy, share);
  live = liveWindow(strategy, place.group, place.groups, count);
  live_before = place.group > 0 ? liveWindow(strategy, place.group - 1, place.groups, count) : 0;
}

StageBuffers::StageBuffers(const StagePlan& stage, const RunConfig& config, const StagePlace& place,
                           const DeviceKind& device)
    : _stage(stage), _strategy(config.strategy), _place(place), _device(device),
      _rows(config.strategy, place, config.training.batch), _prefetch(config.data.prefetch),
      _stored(activationPrecision(config)), _training{messagePrecision(config), _stored} {}

/// A BatchReader: the batches `held`, and on hosts those that are prefetched, on devices the one that
/// arrives; labels have 4 bytes.
std::int64_t StageBuffers::batches(std::int64_t rows, std::int64_t held, bool features) const {
  const std::int64_t row = 4 * _stage.positions + (features ? _stage.inputs() * _device.real_bytes : 0);
  return (held + (_device.host ? _prefetch : 1)) * rows * row;
}

/// Bytes that MPI reads or writes for this many values.
std::int64_t StageBuffers::slots(std::int64_t count, const Stream& stream) const {
  if (_device.staged_messages && !_device.host) return 0;
  return count * numberBytes(stream.wire, _device.real_bytes);
}

/// Copies of received values that are staged or converted.
std::int64_t StageBuffers::copies(std::int64_t count, const Stream& stream) const {
  const bool copied = _device.staged_messages || stream.wire != stream.stored;
  return copied ? count * numberBytes(stream.stored, _device.real_bytes) : 0;
}

std::int64_t StageBuffers::ofPipeline() const {
  const std::int64_t in = _rows.microbatch * _stage.inputs(), out = _rows.microbatch * _stage.outputs();
  std::int64_t bytes = 0;
  if (_place.first) bytes += batches(_rows.microbatch, _rows.live, _stage.first());
  if (!_stage.first()) bytes += in * numberBytes(_stored, _device.real_bytes); // gradient of the input
  if (_place.receives()) {
    bytes += slots((_rows.live + 1) * in, _training) + copies(_rows.live * in, _training); // activations
    bytes += slots(_rows.live_before * in, _training); // gradients in flight
  }
  if (_place.sends()) {
    bytes += slots(_rows.live * out, _training);                 // activations in flight
    bytes += slots(2 * out, _training) + copies(out, _training); // gradients
  }
  return bytes;
}

std::int64_t StageBuffers::ofRelay() const {
  const std::int64_t in = _rows.share * _stage.inputs(), out = _rows.share * _stage.outputs();
  std::int64_t bytes = batches(_rows.share, 1, _stage.first());
  if (_place.receives()) bytes += slots(_strategy.queue * in, _training) + copies(in, _training);
  if (_place.sends()) bytes += slots(_strategy.queue * out, _training);
  return bytes;
}

/// No batch is prefetched.
std::int64_t StageBuffers::ofWorker() const {
  const std::int64_t row = 4 * _stage.positions + _stage.inputs() * _device.real_bytes;
  return (_device.host ? 1 : 2) * _rows.pass * row;
}

std::int64_t StageBuffers::ofJointSteps() const {
  const std::int64_t in = _rows.share * _stage.inputs(), out = _rows.share * _stage.outputs();
  std::int64_t bytes = 0;
  if (_place.receives()) bytes += in * numberBytes(_stored, _device.real_bytes) + slots(in, _training);
  if (_place.sends()) bytes += slots(out, _training) + copies(out, _training);
  return bytes;
}

/// Sent unconverted. Weights of the last layer are assumed to come from another rank if there is one.
std::int64_t StageBuffers::ofCopies() const {
  constexpr Stream reals{Precision::single, Precision::single};
  std::int64_t bytes = 0;
  for (const ParameterCopy& copy : _stage.copies) {
    const bool gives = copy.from_stage == _stage.index;
    const bool remote = copy.kind == ParameterCopy::Kind::last_weights ? _place.groups > 1
                        : gives                                        ? _place.receives()
                                                                       : _place.sends();
    if (gives && !remote) continue; // one buffer for both stages
    bytes += (!gives && copy.keep > 0.0 ? 2 : 1) * copy.size * _device.real_bytes;
    if (remote) bytes += slots(copy.size, reals) + (gives ? 0 : copies(copy.size, reals));
  }
  return bytes;
}

/// A SyntheticSource, after the first stage.
std::int64_t StageBuffers::ofFreeInput(bool mixes) const {
  const std::int64_t bytes = batches(_rows.share, 1, _stage.first());
  if (_stage.first()) return bytes;
  const std::int64_t labels = 2 * _stage.inputs() / _stage.positions + 1, // per class: twice, and one number
      classes = _stage.layers.back().classes;
  std::int64_t values = _rows.share * _stage.inputs() + classes * labels;
  if (mixes) values += _rows.share * _stage.labelValues(); // the mixtures
  return bytes + values * _device.real_bytes;
}

/// One stage trains at a time. The outputs of the previous stage are received and spilled first and read
/// later; then the stage makes the inputs of the next one, and has no optimiser any more. The first
/// evaluation begins after all of these messages, whose buffers are free by then, so they add only what they
/// need beyond an evaluation.
std::int64_t StageBuffers::ofFrozen(std::int64_t optimiser) const {
  const std::int64_t in = _rows.share * _stage.inputs(), out = _rows.share * _stage.outputs();
  const std::int64_t reading = batches(_rows.share, 1, true),
                     sending = _place.sends() ? slots(_strategy.queue * out, _training) : 0,
                     feeding = reading + sending - optimiser;
  if (_stage.first()) return std::max(reading, feeding - ofEvaluation());
  const std::int64_t own = // labels, own rows
      batches(_rows.share, 1, false) + in * numberBytes(_stored, _device.real_bytes);
  std::int64_t coming = own;
  if (_place.receives()) coming += slots(_strategy.queue * in, _training) + copies(in, _training);
  return std::max({own, reading, std::max(coming, feeding) - ofEvaluation()});
}

/// Everything is sent as it is stored.
std::int64_t StageBuffers::ofEvaluation() const {
  constexpr Stream reals{Precision::single, Precision::single};
  const Stream activations{_stored, _stored};
  const std::int64_t in = _rows.pass * _stage.inputs(), out = _rows.pass * _stage.outputs();
  const std::int64_t score = 2 * _rows.pass * _stage.positions * _device.real_bytes;
  std::int64_t bytes = score;
  const JoinedForm joined = joinedForm(_strategy);
  if (joined.adds_exits) {
    bytes += score; // of the stage's own prediction
    const std::int64_t kinds = joined.fits_exits && _stage.stages > 1 ? 2 : 1; // equal weights, fitted ones
    const std::int64_t sums = kinds * _rows.pass * _stage.labelValues();
    if (_place.first) bytes += sums * _device.real_bytes;
    if (_place.receives()) bytes += slots(_strategy.queue * sums, reals) + copies(sums, reals);
    if (_place.sends()) bytes += slots(_strategy.queue * sums, reals);
  }
  if (_place.first) bytes += batches(_rows.pass, 1, _stage.first());
  if (_place.receives()) bytes += slots(_strategy.queue * in, activations) + copies(in, activations);
  if (_place.sends()) bytes += slots(_strategy.queue * out, activations);
  return bytes;
}

std::vector<std::string> optimiserStates(const OptimiserSection& optimiser) {
  if (optimiser.kind != OptimiserKind::sgd) return {"first_moment", "second_moment"};
  return optimiser.momentum > 0.0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
}

namespace {

std::int64_t moments(const OptimiserSection& optimiser) {
  return static_cast<std::int64_t>(optimiserStates(optimiser).size());
}

} // namespace

std::int64_t optimiserVectors(const RunConfig& config) {
  return moments(config.optimiser) + (config.run.precision != Precision::single ? 1 : 0);
}

bool leavesStepsOut(const RunConfig& config) {
  return config.run.precision != Precision::single || sumPrecision(config.strategy) != Precision::single;
}

namespace {

/// Gradients, the buffer in which they are summed if that is a separate one, and the buffer for what is
/// received.
std::int64_t gradientBytes(std::int64_t parameters, const RunConfig& config, const StagePlace& place,
                           const DeviceKind& device) {
  const Precision own = config.run.precision, wire = sumPrecision(config.strategy);
  const std::int64_t gradients = parameters * numberBytes(own, device.real_bytes),
                     sent = numberBytes(wire, device.real_bytes);
  const int replicas = planOf(config.strategy).sharesBatches() ? place.replicas : 1,
            ranks = replicas * (dividesPlaces(config.strategy) ? config.strategy.parts : 1);
  if (ranks == 1) return gradients;
  if (!device.host) return gradients + (device.device_sums && own != wire ? sent * parameters : 0);
  const SumBuckets sums(parameters, config.strategy.bucket_kib * 1024 / sent, ranks);
  const bool copied = device.staged_sums || own != wire;
  return gradients + sent * ((copied ? parameters : 0) + sums.atOnce() * sums.received());
}

/// The copy of a stage's state that checkpoints write while the training goes on. A device does not hold it.
std::int64_t snapshotBytes(const StagePlan& stage, const RunConfig& config, const DeviceKind& device) {
  if (!device.host || config.checkpoint.every == 0) return 0;
  const auto kept =
      static_cast<std::int64_t>(planOf(config.strategy).keptStates(config.strategy, stage).size());
  return ((1 + moments(config.optimiser) + kept) * stage.storedValues() + stage.statistics()) *
         device.real_bytes;
}

/// Moments and masters.
void addOptimiser(StageMemory& memory, const StagePlan& stage, const RunConfig& config,
                  const DeviceKind& device) {
  constexpr std::int64_t buffer_sets = 3; // of BucketStream
  const OptimiserSection& optimiser = config.optimiser;
  const std::int64_t vectors = optimiserVectors(config), parameters = stage.storedValues(),
                     state = vectors * parameters * device.real_bytes,
                     bucket = std::min(optimiser.offload_bucket, parameters) * device.real_bytes;
  const StrategyPlan& plan = planOf(config.strategy);
  const auto kept = static_cast<std::int64_t>(plan.keptStates(config.strategy, stage).size());
  const std::int64_t all = state + kept * parameters * device.real_bytes,
                     masters = config.run.precision != Precision::single ? 1 : 0;
  if (optimiser.offload == Offload::none) {
    memory.optimiser = all;
    return;
  }
  // The strategy's own vectors stream through buffers of their own, with the masters.
  const std::int64_t streamed = plan.streamsKeptStates() ? kept + masters : 0;
  memory.optimiser = buffer_sets * (vectors + streamed) * bucket;
  memory.offloaded = all;
  if (optimiser.offload == Offload::host && device.host) memory.optimiser += all; // the same memory
}

/// Values that the loss on the true labels needs for `rows` samples, and those that the strategy adds.
std::int64_t lossValues(const StagePlan& stage, const RunConfig& config, std::int64_t rows) {
  std::int64_t values = 2 * rows * stage.positions; // loss and hit of each label
  if (stage.last() && config.training.loss == LossKind::mse) {
    values += stage.layers.back().classes * (2 * stage.labelWidth() + 1); // labels, centred, half squares
    values += rows * stage.labelValues();                                 // products with the labels
  }
  values += rows * stage.positions * ClassParts::statistics *
            static_cast<std::int64_t>(stage.class_parts.ranges.size());
  return values + planOf(config.strategy).extraLossValues(stage, config, rows);
}

/// Values per row of a tape.
std::int64_t tapeValues(const StagePlan& stage, const StrategySection& strategy) {
  return stage.keptValues() + planOf(strategy).extraTapeValues(stage, strategy);
}

/// Values of everything that lives as long as a stage.
std::int64_t activationValues(const StagePlan& stage, const RunConfig& config, const StageRows& rows) {
  std::int64_t values =
      rows.pass * (tapeValues(stage, config.strategy) + stage.headValues() + stage.decoderValues());
  values += 2 * rows.pass * stage.widest(); // gradients of activations in the backward pass
  values += stage.workValues(rows.pass);    // scratch of layers
  if (stage.copiesOutput()) values += rows.pass * stage.outputs();
  values += lossValues(stage, config, rows.pass);
  if (config.run.precision != Precision::single)
    values += 2 * stage.halfScratch(rows.pass); // for parameters and gradients of a layer
  return values;
}

} // namespace

StageMemory stageMemory(const StagePlan& stage, const RunConfig& config, const StagePlace& place,
                        const DeviceKind& device) {
  const StrategySection& strategy = config.strategy;
  const StageRows rows(strategy, place, config.training.batch);
  const StageBuffers buffers(stage, config, place, device);
  const std::int64_t parameters = stage.storedValues(), real_bytes = device.real_bytes;
  StageMemory memory;
  memory.parameters = parameters * numberBytes(config.run.precision, real_bytes) +
                      stage.statistics() * (leavesStepsOut(config) ? 2 : 1) * real_bytes;
  memory.gradients = gradientBytes(parameters, config, place, device);
  addOptimiser(memory, stage, config, device);
  memory.activations = activationValues(stage, config, rows) * real_bytes;
  memory.evaluation = buffers.ofEvaluation();
  const std::int64_t more_tapes = // of the other live microbatches
      (rows.live - 1) * rows.microbatch * tapeValues(stage, strategy) * real_bytes;
  planOf(strategy).addTraining(memory, buffers, strategy, more_tapes);
  memory.buffers += snapshotBytes(stage, config, device);
  return memory;
}

} // namespace partita
