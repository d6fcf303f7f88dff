#include "partita/plan/stage_buffers.hpp"

#include <algorithm>

namespace partita {

StageBuffers::StageBuffers(const StagePlan& stage, const RunConfig& config, const StagePlace& place,
                           const DeviceKind& device)
    : _stage(stage), _strategy(config.strategy), _place(place), _device(device),
      _rows(config.strategy, place, config.training.batch), _prefetch(config.data.prefetch),
      _wire(config.strategy.wire) {}

/// A BatchReader: those `held`, and on hosts the ones that are made ahead; labels are of 4 bytes.
std::int64_t StageBuffers::batches(std::int64_t rows, std::int64_t held, bool features) const {
  const std::int64_t row = 4 * _stage.positions + (features ? _stage.inputs() * _device.real_bytes : 0);
  return (held + (_device.host ? _prefetch : 0)) * rows * row;
}

/// What MPI reads or writes of so many values.
std::int64_t StageBuffers::slots(std::int64_t count, Precision wire) const {
  if (_device.staged_messages && !_device.host) return 0;
  return count * (wire == Precision::single ? _device.real_bytes : 2);
}

/// What becomes of values received that are staged or of 16 bits.
std::int64_t StageBuffers::copies(std::int64_t count, Precision wire) const {
  return _device.staged_messages || wire != Precision::single ? count * _device.real_bytes : 0;
}

std::int64_t StageBuffers::ofPipeline() const {
  const std::int64_t in = _rows.microbatch * _stage.inputs(), out = _rows.microbatch * _stage.outputs();
  std::int64_t bytes = 0;
  if (_place.first) bytes += batches(_rows.microbatch, _rows.live, _stage.first());
  if (!_stage.first()) bytes += in * _device.real_bytes; // gradient of the input
  if (_place.receives()) {
    bytes += slots((_rows.live + 1) * in, _wire) + copies(_rows.live * in, _wire); // activations
    bytes += slots(_rows.live_before * in, _wire);                                 // gradients on their way
  }
  if (_place.sends()) {
    bytes += slots(_rows.live * out, _wire);             // activations on their way
    bytes += slots(2 * out, _wire) + copies(out, _wire); // gradients
  }
  return bytes;
}

std::int64_t StageBuffers::ofRelay() const {
  const std::int64_t in = _rows.share * _stage.inputs(), out = _rows.share * _stage.outputs();
  std::int64_t bytes = batches(_rows.share, 1, _stage.first());
  if (_place.receives()) bytes += slots(_strategy.queue * in, _wire) + copies(in, _wire);
  if (_place.sends()) bytes += slots(_strategy.queue * out, _wire);
  return bytes;
}

/// A SyntheticSource, behind the first stage.
std::int64_t StageBuffers::ofFreeInput(bool mixes) const {
  const std::int64_t bytes = batches(_rows.share, 1, _stage.first());
  if (_stage.first()) return bytes;
  const std::int64_t labels = 2 * _stage.inputs() / _stage.positions + 1, // of a class: twice, and a number
      classes = _stage.layers.back().classes;
  std::int64_t values = _rows.share * _stage.inputs() + classes * labels;
  if (mixes) values += _rows.share * _stage.labelValues(); // the mixtures
  return bytes + values * _device.real_bytes;
}

/// One stage learns at a time. The outputs of the one in front come and are spilled first, and are read
/// later; then the stage makes the inputs of the next one. The largest of these: an upper bound, as a stage
/// has no optimiser any more when it feeds another.
std::int64_t StageBuffers::ofFrozen() const {
  const std::int64_t in = _rows.share * _stage.inputs(), out = _rows.share * _stage.outputs();
  const std::int64_t reading = batches(_rows.share, 1, true),
                     feeding = reading + (_place.sends() ? slots(_strategy.queue * out, _wire) : 0);
  if (_stage.first()) return feeding;
  std::int64_t coming = batches(_rows.share, 1, false) + in * _device.real_bytes; // labels, own rows
  if (_place.receives()) coming += slots(_strategy.queue * in, _wire) + copies(in, _wire);
  return std::max(coming, feeding);
}

/// Activations to evaluate are sent as they are.
std::int64_t StageBuffers::ofEvaluation() const {
  const Precision wire = Precision::single;
  const std::int64_t in = _rows.pass * _stage.inputs(), out = _rows.pass * _stage.outputs();
  std::int64_t bytes = 2 * _rows.pass * _stage.positions * _device.real_bytes; // a Score
  if (_place.first) bytes += batches(_rows.pass, 1, _stage.first());
  if (_place.receives()) bytes += slots(_strategy.queue * in, wire) + copies(in, wire);
  if (_place.sends()) bytes += slots(_strategy.queue * out, wire);
  return bytes;
}

} // namespace partita
