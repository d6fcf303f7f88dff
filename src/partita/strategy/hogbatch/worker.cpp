#include "partita/strategy/hogbatch/worker.hpp"

#include "partita/comm/wait_times.hpp"
#include "partita/data/order.hpp"
#include "partita/strategy/divergence.hpp"

#include <cmath>
#include <limits>

namespace partita {

bool isFinite(const Score::Sums& sums) {
  return std::isfinite(sums.loss) && sums.bad_batch == 0.0;
}

GradientWork::GradientWork(const RunContext& context, std::int64_t repeats)
    : _context(context), _local(*context.stages.front()), _repeats(repeats),
      _features(context.sets, context.config.data, context.seed()),
      _reader(
          &_features, context.sets.train, [this](std::int64_t, BatchRows& out) { out = _rows; },
          std::numeric_limits<std::int64_t>::max(), passCapacity(context.config, context.grid.replicas()),
          0) {}

void GradientWork::readRows(const WorkOrder& order) {
  if (_epoch != order.epoch) {
    _epoch = order.epoch;
    _order = permutation(_context.sets.train.size(), _context.seed(), static_cast<std::uint32_t>(_epoch));
  }
  const auto first = _order.begin() + order.first;
  _rows.rows.assign(first, first + order.count);
  _rows.epoch = static_cast<std::uint32_t>(_epoch);
}

/// What dropout draws its masks for: the batch, or if workers share a step, the step, so that together they
/// draw what one rank would.
std::int64_t GradientWork::drawOf(const WorkOrder& order) const {
  const StrategySection& strategy = _context.config.strategy;
  if (strategy.hogbatch.rule != WorkerRule::synchronous) return order.number;
  const auto samples = static_cast<std::int64_t>(_context.sets.train.size());
  const std::int64_t batch = _context.config.training.batch, steps = (samples + batch - 1) / batch;
  return order.epoch * steps + (order.first - order.row) / batch;
}

Score::Sums GradientWork::compute(const ExecSpace& space, const WorkOrder& order) {
  readRows(order);
  const Batch batch = _reader.next(space);
  Pass pass;
  pass.step = static_cast<std::uint64_t>(drawOf(order));
  pass.first_row = order.row;
  const Real weight = static_cast<Real>(1.0 / static_cast<double>(order.total));
  Score::Sums sums;
  for (std::int64_t i = 0; i < _repeats; ++i) {
    _local.forwardJoined(space, pass, batch.features);
    const TypedMatrix gradient = _local.lossGradient(space, pass, _local.outputForLoss(space, _local.tape),
                                                     {batch.labels, Matrix()}, weight);
    _local.backwardJoined(space, pass, batch.features, _local.tape, gradient, {}, {});
    sums = _local.score.take(space);
  }
  return sums;
}

void failDiverged(const WorkOrder& order) {
  BeforeDivergence::happen();
  throw RunError("the loss is not finite at batch " + std::to_string(order.number + 1) +
                 " of the run (try a smaller optimiser/learning_rate or strategy/rate_cap; checkpoints of "
                 "earlier steps, if there are any, are kept)");
}

Worker::Worker(const RunContext& context, Mailbox& mailbox, ModelAccess& access, std::int64_t repeats)
    : _context(context), _mailbox(mailbox), _access(access), _work(context, repeats) {}

WorkOrder Worker::workUntilMeeting(const ExecSpace& space) {
  for (;;) {
    const WorkOrder order = next();
    if (order.kind == WorkOrder::Kind::meet) {
      _access.read(space); // evaluations and checkpoints use the parameters of the stage
      return order;
    }
    alive();
    const auto begin = Clock::now();
    const double waited = secondsWaited();
    WorkResult result = order.kind == WorkOrder::Kind::train ? train(space, order) : apply(space, order);
    result.kind = order.kind;
    result.number = order.number;
    result.seconds = secondsSince(begin);
    result.waited = secondsWaited() - waited;
    result.wants_meeting = _context.control.wantsMeeting({}, {}, 0.0);
    answer(result);
  }
}

void Worker::add(const Mailbox::Message& message) {
  const auto more = message.asAll<WorkOrder>();
  _orders.insert(_orders.end(), more.begin(), more.end());
}

WorkOrder Worker::next() {
  if (_orders.empty()) add(_mailbox.waitAny({Tag::order}, "order of the coordinator"));
  const WorkOrder order = _orders.front();
  _orders.pop_front();
  return order;
}

/// May the results wait? They are sent when about a third of the orders is carried out, so that the
/// coordinator has the time that the others take to send new ones.
bool Worker::hasEnough() const {
  return 2 * _results.size() < _orders.size();
}

void Worker::answer(const WorkResult& result) {
  _results.push_back(result);
  if (hasEnough()) return;
  _mailbox.poll();
  while (const auto message = _mailbox.take(Tag::order)) add(*message);
  if (hasEnough()) return;
  for (std::size_t i = 0; i + 1 < _results.size(); ++i) _results[i].more = true;
  _mailbox.sendAll(0, Tag::result, _results);
  _results.clear();
}

WorkResult Worker::train(const ExecSpace& space, const WorkOrder& order) {
  WorkResult result;
  _read = _access.read(space);
  const Score::Sums sums = _work.compute(space, order);
  result.read = _read;
  result.failed = !isFinite(sums);
  if (result.failed && !_context.config.strategy.hogbatch.tolerate) failDiverged(order);
  if (result.failed) return result;
  result.loss = sums.loss;
  result.correct = sums.correct;
  result.rows = sums.rows;
  if (order.applies) result.applied = _access.apply(space, order, _read);
  return result;
}

WorkResult Worker::apply(const ExecSpace& space, const WorkOrder& order) {
  WorkResult result;
  result.read = _read;
  result.applied = _access.apply(space, order, _read);
  return result;
}

} // namespace partita
