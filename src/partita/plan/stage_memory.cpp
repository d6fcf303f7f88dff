#include "partita/plan/stage_memory.hpp"

#include "partita/plan/stage_buffers.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>

namespace partita {

bool leavesStepsOut(const RunConfig& config) {
  return config.run.precision != Precision::single || config.strategy.wire != Precision::single;
}

namespace {

/// Bytes of a parameter or gradient as layers and optimiser see them.
std::int64_t numberBytes(Precision precision, std::int64_t real_bytes) {
  return precision == Precision::single ? real_bytes : 2;
}

/// Gradients, and what MPI sums where that is not the gradients themselves.
std::int64_t gradientBytes(std::int64_t parameters, const RunConfig& config, const StagePlace& place,
                           const DeviceKind& device) {
  const Precision own = config.run.precision, wire = config.strategy.wire;
  const bool copied = place.replicas > 1 && (device.staged_sums || own != wire);
  return parameters * (numberBytes(own, device.real_bytes) +
                       (copied && device.host ? numberBytes(wire, device.real_bytes) : 0));
}

/// Moments and masters.
void addOptimiser(StageMemory& memory, std::int64_t parameters, const RunConfig& config,
                  const DeviceKind& device) {
  constexpr std::int64_t buffer_sets = 3; // of BucketStream
  const OptimiserSection& optimiser = config.optimiser;
  const int moments = optimiser.kind != OptimiserKind::sgd ? 2 : optimiser.momentum > 0.0 ? 1 : 0;
  const std::int64_t vectors = moments + (config.run.precision != Precision::single ? 1 : 0),
                     state = vectors * parameters * device.real_bytes,
                     bucket = std::min(optimiser.offload_bucket, parameters) * device.real_bytes;
  if (optimiser.offload == Offload::none) {
    memory.optimiser = state;
    return;
  }
  memory.optimiser = buffer_sets * vectors * bucket;
  memory.offloaded = state;
  if (optimiser.offload == Offload::host && device.host) memory.optimiser += state; // it is the same memory
}

/// Values of what the loss on the true labels needs, for `rows` samples, and what the strategy adds.
std::int64_t lossValues(const StagePlan& stage, const RunConfig& config, std::int64_t rows) {
  std::int64_t values = 2 * rows * stage.positions; // loss and hit of each label
  if (stage.last() && config.training.loss == LossKind::mse) {
    values += stage.layers.back().classes * (2 * stage.labelWidth() + 1); // labels, centred, half squares
    values += rows * stage.labelValues();                                 // products with the labels
  }
  return values + planOf(config.strategy).extraLossValues(stage, config, rows);
}

/// Values of a tape, per row.
std::int64_t tapeValues(const StagePlan& stage, const StrategySection& strategy) {
  return stage.keptValues() + planOf(strategy).extraTapeValues(stage, strategy);
}

/// Values of all that stays as long as a stage does.
std::int64_t activationValues(const StagePlan& stage, const RunConfig& config, const StageRows& rows) {
  std::int64_t values = rows.pass * tapeValues(stage, config.strategy);
  values += 2 * rows.pass * stage.widest(); // gradients of activations on their way back
  values += stage.workValues(rows.pass);    // scratch of layers
  values += lossValues(stage, config, rows.pass);
  if (config.run.precision != Precision::single)
    values += 2 * stage.realCopies(); // parameters and gradients of a layer, as it sees them
  return values;
}

} // namespace

StageMemory stageMemory(const StagePlan& stage, const RunConfig& config, const StagePlace& place,
                        const DeviceKind& device) {
  const StrategySection& strategy = config.strategy;
  const StageRows rows(strategy, place, config.training.batch);
  const StageBuffers buffers(stage, config, place, device);
  const std::int64_t parameters = stage.parameters(), real_bytes = device.real_bytes;
  StageMemory memory;
  memory.parameters = parameters * numberBytes(config.run.precision, real_bytes) +
                      stage.statistics() * (leavesStepsOut(config) ? 2 : 1) * real_bytes;
  memory.gradients = gradientBytes(parameters, config, place, device);
  addOptimiser(memory, parameters, config, device);
  memory.activations = activationValues(stage, config, rows) * real_bytes;
  memory.evaluation = buffers.ofEvaluation();
  const std::int64_t more_tapes = // of the other live microbatches
      (rows.live - 1) * rows.microbatch * tapeValues(stage, strategy) * real_bytes;
  planOf(strategy).addTraining(memory, buffers, strategy, more_tapes);
  return memory;
}

} // namespace partita
