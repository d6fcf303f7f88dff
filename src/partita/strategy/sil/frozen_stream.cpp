#include "partita/strategy/sil/frozen_stream.hpp"

#include "partita/comm/wait_times.hpp"
#include "partita/data/order.hpp"

#include <algorithm>

namespace partita {

FrozenStream::FrozenStream(const RunContext& context, int stage) : _context(context), _stage(stage) {
  const RunLength& count = context.length;
  const std::size_t samples = context.sets.train.size();
  const std::int64_t batch = context.config.training.batch;
  const int replicas = context.grid.replicas();
  _capacity = largestShare(context.config.training.batch, replicas);
  _whole_segments = std::min(count.steps, count.per_epoch) * replicas;
  _segments = count.steps > count.per_epoch ? streamingSegments(samples, batch, replicas) : _whole_segments;
  _order = streamingOrder(samples, context.seed(), batch, replicas);
}

bool FrozenStream::feedsFromHere() const {
  return _stage > 0 && _context.grid.owns(_stage - 1) && !_context.grid.owns(_stage);
}

LocalStage& FrozenStream::finishedStage() const {
  return *_context.stages[static_cast<std::size_t>(_stage - 1 - _context.grid.firstStage())];
}

/// The finished stage is on this rank: its outputs are computed on demand. Messages between its parts
/// meanwhile do not count as training.
FrozenStream::Segments FrozenStream::computedSegments(const RowSource& inputs) const {
  auto reader = std::make_shared<BatchReader>(&inputs, _context.sets.train, _order, _segments, _capacity,
                                              _context.config.data.prefetch);
  return [&finished = finishedStage(), reader = std::move(reader)](const ExecSpace& space) {
    Pass pass;
    pass.training = false;
    const Matrix in = reader->next(space).features;
    finished.countTraffic(false);
    const TypedMatrix out = finished.forwardJoined(space, pass, in);
    finished.countTraffic(true);
    return out;
  };
}

void FrozenStream::beginFeeding(const RowSource& inputs) {
  const Grid& grid = _context.grid;
  LocalStage& finished = finishedStage();
  _outgoing = computedSegments(inputs);
  _sender = std::make_unique<Sender>(grid.channel(grid.chain(), grid.group() + 1, Tag::frozen,
                                                  waits::activations, finished.stage.outputPrecision()),
                                     _capacity, finished.stage.outputs(), _context.config.strategy.queue,
                                     _context.grid.traffic.between_stages);
}

void FrozenStream::sendNext(const ExecSpace& space) {
  alive();
  _sender->send(space, _outgoing(space));
  ++_sent;
}

void FrozenStream::feedBatch(const ExecSpace& space) {
  if (_sender == nullptr) return;
  for (int replica = 0; replica < _context.grid.replicas() && _sent < _segments; ++replica) sendNext(space);
}

void FrozenStream::feedRest(const ExecSpace& space) {
  if (_sender == nullptr) return;
  while (_sent < _segments) sendNext(space);
  finish();
  _sender.reset();
  _outgoing = nullptr;
}

void FrozenStream::finish() {
  if (_sender != nullptr) _sender->finish();
}

/// A batch has one segment per replica: all are spilled, and the stage trains on this replica's segment.
BatchSource FrozenStream::makeSource(const RowSource& inputs, ActivationCache& cache) {
  const Grid& grid = _context.grid;
  _cache = &cache;
  if (grid.owns(_stage - 1)) {
    _incoming = computedSegments(inputs);
  } else {
    auto receiver = std::make_shared<Receiver>(
        grid.channel(grid.chain(), grid.group() - 1, Tag::frozen, waits::activations, cache.precision()),
        _capacity, cache.width(), _context.config.strategy.queue, _segments);
    _incoming = [receiver = std::move(receiver)](const ExecSpace& space) { return receiver->next(space); };
  }
  auto labels = std::make_shared<BatchReader>(nullptr, _context.sets.train, _context.trainingOrder(0),
                                              _whole_segments / grid.replicas(), _capacity,
                                              _context.config.data.prefetch);
  const TypedRows kept("partita::FrozenStream::own", cache.precision(), _capacity, cache.width());
  return [this, &grid, kept, labels = std::move(labels)](const ExecSpace& space) -> StageBatch {
    TypedMatrix own;
    for (int replica = 0; replica < grid.replicas(); ++replica) {
      const TypedMatrix segment = takeSegment(space);
      if (replica != grid.replica()) continue;
      own = kept.shaped(segment.rows, segment.columns);
      copyValues(space, segment, own);
    }
    return {own, {labels->next(space).labels, Matrix()}};
  };
}

TypedMatrix FrozenStream::takeSegment(const ExecSpace& space) {
  alive(); // a run that continues takes all segments, without a step between them
  const TypedMatrix segment = _incoming(space);
  _order(_taken++, _segment);
  _cache->put(space, segment, _segment.rows);
  return segment;
}

void FrozenStream::drain(const ExecSpace& space) {
  while (_taken < _segments) takeSegment(space);
  _incoming = nullptr;
}

} // namespace partita
