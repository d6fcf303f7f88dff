#include "partita/strategy/sil/frozen_stream.hpp"

#include "partita/comm/wait_times.hpp"
#include "partita/data/order.hpp"

#include <algorithm>

namespace partita {

/// The finished stage is on this rank: its outputs are computed on demand. Messages between its parts
/// meanwhile do not count as training.
class FrozenStream::MadeSegments : public FrozenStream::Segments {
 public:
  MadeSegments(LocalStage& finished, std::unique_ptr<BatchReader> reader)
      : _finished(finished), _reader(std::move(reader)) {}
  TypedMatrix next(const ExecSpace& space) override {
    Pass pass;
    pass.training = false;
    const Matrix in = _reader->next(space).features;
    _finished.countTraffic(false);
    const TypedMatrix out = _finished.forwardJoined(space, pass, in);
    _finished.countTraffic(true);
    return out;
  }

 private:
  LocalStage& _finished;
  std::unique_ptr<BatchReader> _reader;
};

class FrozenStream::ReceivedSegments : public FrozenStream::Segments {
 public:
  explicit ReceivedSegments(std::unique_ptr<Receiver> receiver) : _receiver(std::move(receiver)) {}
  TypedMatrix next(const ExecSpace& space) override { return _receiver->next(space); }

 private:
  std::unique_ptr<Receiver> _receiver;
};

/// A batch has one segment per replica: all are spilled, and the stage trains on this replica's segment.
class FrozenStream::Source : public BatchSource {
 public:
  Source(FrozenStream& stream, std::unique_ptr<BatchReader> labels, const ActivationCache& cache)
      : _stream(stream), _labels(std::move(labels)),
        _own("partita::FrozenStream::own", cache.precision(), stream._capacity, cache.width()) {}

  StageBatch next(const ExecSpace& space) override {
    const Grid& grid = _stream._context.grid;
    TypedMatrix own;
    for (int replica = 0; replica < grid.replicas(); ++replica) {
      const TypedMatrix segment = _stream.takeSegment(space);
      if (replica != grid.replica()) continue;
      own = _own.shaped(segment.rows, segment.columns);
      copyValues(space, segment, own);
    }
    return {own, {_labels->next(space).labels, Matrix()}};
  }

 private:
  FrozenStream& _stream;
  std::unique_ptr<BatchReader> _labels;
  TypedRows _own;
};

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

std::unique_ptr<BatchReader> FrozenStream::makeReader(const RowSource& inputs) const {
  return std::make_unique<BatchReader>(&inputs, _context.sets.train, _order, _segments, _capacity,
                                       _context.config.data.prefetch);
}

void FrozenStream::beginFeeding(const RowSource& inputs) {
  const Grid& grid = _context.grid;
  LocalStage& finished = finishedStage();
  _outgoing = std::make_unique<MadeSegments>(finished, makeReader(inputs));
  _sender = std::make_unique<Sender>(grid.channel(grid.chain(), grid.group() + 1, Tag::frozen,
                                                  waits::activations, finished.stage.outputPrecision()),
                                     _capacity, finished.stage.outputs(), _context.config.strategy.queue,
                                     _context.grid.traffic.between_stages);
}

void FrozenStream::sendNext(const ExecSpace& space) {
  alive();
  _sender->send(space, _outgoing->next(space));
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
  _outgoing.reset();
}

void FrozenStream::finish() {
  if (_sender != nullptr) _sender->finish();
}

std::unique_ptr<BatchSource> FrozenStream::makeSource(const RowSource& inputs, ActivationCache& cache) {
  const Grid& grid = _context.grid;
  _cache = &cache;
  if (grid.owns(_stage - 1)) {
    _incoming = std::make_unique<MadeSegments>(finishedStage(), makeReader(inputs));
  } else {
    _incoming = std::make_unique<ReceivedSegments>(std::make_unique<Receiver>(
        grid.channel(grid.chain(), grid.group() - 1, Tag::frozen, waits::activations, cache.precision()),
        _capacity, cache.width(), _context.config.strategy.queue, _segments));
  }
  auto reader = std::make_unique<BatchReader>(nullptr, _context.sets.train, _context.trainingOrder(0),
                                              _whole_segments / grid.replicas(), _capacity,
                                              _context.config.data.prefetch);
  return std::make_unique<Source>(*this, std::move(reader), cache);
}

TypedMatrix FrozenStream::takeSegment(const ExecSpace& space) {
  alive(); // a run that continues takes all segments, without a step between them
  const TypedMatrix segment = _incoming->next(space);
  _order(_taken++, _segment);
  _cache->put(space, segment, _segment.rows);
  return segment;
}

void FrozenStream::drain(const ExecSpace& space) {
  while (_taken < _segments) takeSegment(space);
  _incoming.reset();
}

} // namespace partita
