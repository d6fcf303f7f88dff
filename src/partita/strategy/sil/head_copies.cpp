#include "partita/strategy/sil/head_copies.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/plan/parts/copy_on_part.hpp"
#include "partita/plan/strategies/sil.hpp"

#include <algorithm>
#include <utility>

namespace partita {

namespace {

/// Moves new values back towards the old ones.
struct Blend {
  Vector values, old;
  Real keep;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { values(i) += keep * (old(i) - values(i)); }
};

Vector makeBuffer(std::int64_t size) {
  return Vector("partita::HeadCopies::values", static_cast<std::size_t>(size));
}

} // namespace

HeadCopies::HeadCopies(const RunContext& context, std::vector<StageUpdater*> updaters)
    : _context(context), _updaters(std::move(updaters)) {
  for (const StagePlan& stage : context.partition.stages) {
    for (const ParameterCopy& whole : stage.copies) {
      const ParameterCopy copy =
          copyOnPart(whole, context.partition.stages, context.config.strategy, context.grid.part());
      if (copy.to_stage == stage.index) addStream(copy, context.grid.plan().groupOf(stage.index));
      if (copy.from_stage == stage.index && context.grid.owns(stage.index)) keepSent(copy);
    }
  }
}

/// A run that continues from a checkpoint sends again what was sent last.
void HeadCopies::keepSent(const ParameterCopy& copy) {
  StageUpdater& updater = *_updaters[placeOf(copy.from_stage)];
  StoredVector& sent = _sent[{copy.from_stage, copy.kind}];
  if (sent.size() > 0) return;
  sent = StoredVector(placementOf(_context.config.optimiser), "partita::HeadCopies::sent",
                      updater.local().stage.masters().size());
  updater.keep({keptStateOf(copy.kind), sent});
}

/// All heads of a rank get the same weights of the last layer by one message.
void HeadCopies::addStream(const ParameterCopy& copy, int to_group) {
  const Grid& grid = _context.grid;
  if (!grid.owns(copy.from_stage) && !grid.owns(copy.to_stage)) return;
  auto stream = std::find_if(_streams.begin(), _streams.end(), [&](const Stream& each) {
    return each.source.kind == copy.kind && each.source.from_stage == copy.from_stage &&
           each.to_group == to_group;
  });
  if (stream == _streams.end()) {
    _streams.emplace_back();
    stream = std::prev(_streams.end());
    stream->source = copy;
    stream->to_group = to_group;
  }
  if (grid.owns(copy.to_stage)) stream->targets.push_back(copy);
}

bool HeadCopies::pending(const Stream& stream, std::int64_t step) const {
  const std::int64_t every = stream.source.every, version = step / every;
  return version >= 1 && (version + 1) * every <= _context.length.steps;
}

void HeadCopies::connect(Stream& stream, bool fresh) {
  Grid& grid = _context.grid;
  const ParameterCopy& source = stream.source;
  stream.values = makeBuffer(source.size);
  if (takes(stream) && source.keep > 0.0) stream.old = makeBuffer(source.size);
  if (gives(stream) && takes(stream)) return;
  const bool first_layer = source.kind == ParameterCopy::Kind::first_layer;
  const int peer = gives(stream) ? stream.to_group : grid.plan().groupOf(source.from_stage);
  const Channel channel = grid.exactChannel(
      grid.chain(), peer, first_layer ? Tag::lookahead : Tag::refresh,
      first_layer ? "parameters of the next stage" : "weights of the last layer", Precision::single);
  if (gives(stream)) {
    stream.sender = std::make_unique<Sender>(channel, 1, source.size, 1, grid.traffic.between_stages);
    return;
  }
  const std::int64_t taken = std::max<std::int64_t>(_context.start.step / source.every, 1),
                     wanted = std::max<std::int64_t>(_context.length.steps / source.every - taken, 0);
  stream.receiver = std::make_unique<Receiver>(channel, 1, source.size, 1, wanted + (fresh ? 1 : 0));
}

void HeadCopies::begin(const ExecSpace& space, bool found) {
  const auto& stages = _context.partition.stages;
  if (std::all_of(stages.begin(), stages.end(), [](const StagePlan& stage) { return stage.copies.empty(); }))
    return; // on all ranks alike
  const bool fresh = _context.grid.chain().maximum(std::int64_t{found ? 0 : 1}) > 0;
  for (Stream& stream : _streams) {
    connect(stream, fresh);
    if (!fresh || !gives(stream)) continue;
    record(space, stream);
    send(space, stream);
  }
  for (Stream& stream : _streams)
    if (fresh && takes(stream)) refresh(space, stream, 0.0);
  const Traffic counted = _context.grid.traffic;
  for (Stream& stream : _streams)
    if (gives(stream) && pending(stream, _context.start.step)) send(space, stream);
  _context.grid.traffic = counted; // the run before has counted it
}

void HeadCopies::afterStep(const ExecSpace& space, std::int64_t step) {
  const auto due = [&](const Stream& stream) { return step % stream.source.every == 0; };
  if (std::none_of(_streams.begin(), _streams.end(), due)) return;
  const Region region(space, "partita::HeadCopies::afterStep", Phase::communication);
  finishUpdates(space, _updaters);
  for (Stream& stream : _streams)
    if (due(stream) && takes(stream) && step / stream.source.every >= 2)
      refresh(space, stream, stream.source.keep);
  for (Stream& stream : _streams) {
    if (!due(stream) || !gives(stream)) continue;
    record(space, stream);
    if (pending(stream, step)) send(space, stream);
  }
}

void HeadCopies::finish(const ExecSpace& space, std::int64_t step) {
  for (Stream& stream : _streams)
    if (stream.receiver != nullptr && pending(stream, step)) stream.receiver->next(space);
  for (Stream& stream : _streams)
    if (stream.sender != nullptr) stream.sender->finish();
}

void HeadCopies::record(const ExecSpace& space, Stream& stream) {
  const Stage& stage = _updaters[placeOf(stream.source.from_stage)]->local().stage;
  stage.masters().load(space, stream.source.from, stream.values);
  sentBy(stream).save(space, stream.source.from, stream.values);
}

void HeadCopies::send(const ExecSpace& space, Stream& stream) {
  if (stream.sender == nullptr) return; // the heads are on this rank
  sentBy(stream).load(space, stream.source.from, stream.values);
  stream.sender->send(space, Matrix(stream.values.data(), 1, stream.values.size()));
}

Vector HeadCopies::receive(const ExecSpace& space, Stream& stream) {
  if (stream.receiver != nullptr) {
    const Matrix values = stream.receiver->next(space).real();
    return Vector(values.data(), values.size());
  }
  sentBy(stream).load(space, stream.source.from, stream.values);
  return stream.values;
}

void HeadCopies::refresh(const ExecSpace& space, Stream& stream, double keep) {
  const Vector arrived = receive(space, stream);
  for (const ParameterCopy& target : stream.targets) {
    Stage& stage = _updaters[placeOf(target.to_stage)]->local().stage;
    if (keep > 0.0) {
      stage.masters().load(space, target.to, stream.old);
      forEachValue(space, "partita::HeadCopies::blend_kernel", target.size,
                   Blend{arrived, stream.old, static_cast<Real>(keep)});
    }
    stage.setParameters(space, target.to, arrived);
  }
}

} // namespace partita
