#include "partita/strategy/hogbatch/coordinator.hpp"

#include "partita/core/finite.hpp"
#include "partita/plan/hogbatch/deck_mix.hpp"
#include "partita/strategy/divergence.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace partita {

Coordinator::Coordinator(const RunContext& context, Mailbox& mailbox, const SharedModel& model)
    : _context(context), _section(context.config.strategy.hogbatch), _mailbox(mailbox), _model(model),
      _progress(context.config, context.length, static_cast<std::int64_t>(context.sets.train.size())),
      _controller(batchRules(context.config), workerGroups(context.config, context.grid.replicas())),
      _dispatcher(_progress.samples(), static_cast<std::size_t>(context.grid.replicas())),
      _rates{static_cast<double>(context.config.training.batch), _section.rate_cap},
      _orders(mailbox, _dispatcher, _state, static_cast<std::size_t>(context.grid.replicas())),
      _report(context, _state) {
  setGivenSpeeds();
  _state.workers.resize(_orders.size());
  for (std::size_t worker = 0; worker < _orders.size(); ++worker) {
    WorkerCounts& counts = _state.workers[worker];
    counts.rank = context.grid.plan().first_rank + static_cast<std::int64_t>(worker);
    counts.shared = _section.isShared(worker);
  }
  _state.groups = _controller.state();
}

void Coordinator::setGivenSpeeds() {
  const std::vector<double> speeds = givenSpeeds(_section, _orders.size());
  if (!speeds.empty()) _controller.setSpeeds(speeds);
}

void Coordinator::restore(const Position& position, const std::vector<double>& numbers) {
  const auto found = HogbatchState::from(numbers, _controller.groups(), _orders.size());
  const std::vector<WorkerCounts> places = _state.workers;
  if (found) {
    _state = *found;
    _controller.restore(_state.groups);
    setGivenSpeeds(); // which the deck may have changed
    for (std::size_t i = 0; i < places.size(); ++i) {
      _state.workers[i].rank = places[i].rank;
      _state.workers[i].shared = places[i].shared;
    }
  }
  const auto of_others = found ? found : HogbatchState::from(numbers); // whose place in the epoch is the same
  if (of_others) std::tie(_state.epoch, _state.cursor) = std::tie(of_others->epoch, of_others->cursor);
  if (_state.epoch < 0 || _state.epoch > position.step || _state.cursor < 0 ||
      _progress.step(_state.epoch, _state.cursor) != position.step)
    std::tie(_state.epoch, _state.cursor) = _progress.place(position.step);
  if (_state.cursor >= _progress.samples()) {
    ++_state.epoch;
    _state.cursor = 0;
  }
  _dispatcher.startAt(_state.cursor);
  resume(position.step);
}

void Coordinator::evaluated(std::int64_t step, double loss) {
  std::vector<LossReached>& reached = _state.reached;
  if (std::isfinite(loss) && (reached.empty() || loss < reached.back().loss))
    reached.push_back({loss, _state.seconds});
  showWorkers(step);
}

std::int64_t Coordinator::handedOut() const {
  return _dispatcher.examples() - _dispatcher.remaining();
}

std::int64_t Coordinator::left() const {
  return std::max<std::int64_t>(0, _progress.end(_state.epoch) - handedOut());
}

bool Coordinator::epochOver() const {
  return left() == 0 && _orders.busy() == 0;
}

bool Coordinator::finished() const {
  return left() == 0 && _progress.end(_state.epoch + 1) == 0;
}

/// The learning rate of an update with the gradient of `examples` samples; as many as `begin` samples of the
/// epoch were handed out before.
double Coordinator::rateOf(std::int64_t examples, std::int64_t begin) const {
  const RunLength& length = _context.length;
  const std::int64_t step = std::min(_progress.step(_state.epoch, begin), length.steps - 1);
  return learningRate(_context.config.optimiser, step, length.steps, length.per_epoch) *
         _rates.factor(static_cast<double>(examples));
}

/// Seconds that all workers together need for the rest of the epoch, going by their last batches; 0 before
/// the first.
double Coordinator::secondsLeft() const {
  double speed = 0.0;
  for (std::size_t i = 0; i < _orders.size(); ++i)
    if (!_orders[i].failed && _orders[i].last > 0.0)
      speed += static_cast<double>(_orders[i].last_examples) / _orders[i].last;
  return speed > 0.0 ? static_cast<double>(left()) / speed : 0.0;
}

/// How many orders the worker should have. With `tolerate` only one, because an order to apply follows it.
std::size_t Coordinator::ordersOf(std::size_t worker) {
  const WorkerOrders& own = _orders[worker];
  if (!mayHandOut() || own.late || own.failed) return 0;
  if (_section.tolerate) return 1;
  const std::size_t orders = batchesAtOnce(own.last, secondsLeft());
  const Position now{RunPhase::training, 0, step()},
      soon{RunPhase::training, 0, _progress.step(_state.epoch, handedOut())};
  // Before a meeting, none in advance.
  return _context.control.wantsMeeting(now, soon, _orders.secondsToEnd()) ? 1 : orders;
}

void Coordinator::handOut(std::size_t worker) {
  while (_orders[worker].orders.size() < ordersOf(worker) && giveNext(worker)) continue;
  _orders.send(worker);
}

/// Returns false if there is nothing to hand out.
bool Coordinator::giveNext(std::size_t worker) {
  const std::int64_t size = _controller.size(workerGroup(_section, worker)), count = std::min(size, left());
  if (count == 0 || !mayHandOut()) return false;
  const std::int64_t begin = handedOut();
  const auto range = _dispatcher.next(worker, count); // fewer samples, if they come from another worker
  if (!range) return false;
  WorkOrder order;
  order.rate = rateOf(range->count, begin);
  order.wanted = size;
  order.total = range->count;
  order.applies = !_section.tolerate;
  order.decay = _context.config.optimiser.weight_decay;
  _state.workers[worker].batch_last = size;
  _orders.give(worker, *range, order);
  return true;
}

void Coordinator::handOut() {
  if (synchronous()) return beginStep();
  for (const std::size_t worker : fewestFirst(_state.workers)) handOut(worker);
}

/// Results that a worker has sent together. None if a worker was lost instead: there may be nothing left to
/// wait for.
std::vector<WorkResult> Coordinator::receive(std::size_t& worker) {
  Waiting waiting({WaitedFor::Kind::any, "results of workers"});
  for (;;) {
    std::optional<Mailbox::Message> message = _mailbox.take(Tag::result);
    std::set<int> lost; // before the poll, which gets everything that they sent
    if (!message) {
      if (_context.losses != nullptr) lost = _context.losses->lost();
      _mailbox.poll();
      message = _mailbox.take(Tag::result);
    }
    if (message) {
      waiting.over();
      alive();
      worker = static_cast<std::size_t>(message->from - _context.grid.plan().first_rank);
      return message->asAll<WorkResult>();
    }
    if (dropLostWorkers(lost)) return {};
    _orders.look();
    if (_section.tolerate) dropLateWorkers();
    if (_server == nullptr || !_server->serve()) waiting.sleep(_orders.nap(_server != nullptr));
  }
}

void Coordinator::takeNext() {
  std::size_t worker = 0;
  const std::vector<WorkResult> results = receive(worker);
  for (const WorkResult& result : results) take(worker, result);
  if (!results.empty() && !synchronous()) handOut(worker);
}

/// Counts a batch that has changed the model, or whose update was dropped.
void Coordinator::record(std::size_t worker, const WorkOrder& order, const WorkResult& result) {
  WorkerCounts& totals = _state.workers[worker];
  const bool counts = result.applied.version >= 0;
  _last_rate = order.rate;
  totals.batches += 1;
  totals.examples += order.count;
  totals.updates += counts ? 1 : 0;
  totals.dropped += counts ? 0 : 1;
  totals.overwritten += result.applied.overwritten;
  totals.staleness_sum += static_cast<double>(result.applied.staleness);
  totals.staleness_max = std::max(totals.staleness_max, result.applied.staleness);
  _state.version = std::max(_state.version, result.applied.version + 1);
  _report.count(order.count);
  _controller.finished(workerGroup(_section, worker),
                       {counts, order.count, order.wanted, result.seconds, result.more});
  if (_log != nullptr) {
    _log->add({order.number, static_cast<std::int64_t>(worker), order.epoch, order.first, order.count,
               order.row, order.total, result.read, result.applied.version, result.applied.rate, order.decay,
               totals.shared});
  }
}

void Coordinator::take(std::size_t worker, const WorkResult& result) {
  if (_orders[worker].lost) return; // it was given up, but still answers: others have its batch
  _meeting_wanted = _meeting_wanted || result.wants_meeting;
  _state.workers[worker].busy_seconds += result.seconds - result.waited;
  if (result.kind == WorkOrder::Kind::train && !result.failed && !_orders[worker].late) {
    _orders[worker].time(result.seconds);
    _state.loss += result.loss;
    _state.correct += result.correct;
    _state.rows += result.rows;
  }
  if (synchronous()) {
    takeInStep(worker, result);
  } else {
    takeAlone(worker, result);
  }
}

void Coordinator::takeAlone(std::size_t worker, const WorkResult& result) {
  WorkerOrders& own = _orders[worker];
  if (own.late) { // others have done its batch, or it counts as done
    own.late = false;
    const double seconds = std::min(result.seconds, _orders.waited(worker));
    own.longest = std::max(own.longest, 2.0 * seconds / batches_until_late); // has twice as long now
    if (own.result) record(worker, own.applying, _orders.applied(worker, result));
    return;
  }
  if (result.failed) {
    own.failed = true;
    return drop(worker, "its loss is not finite");
  }
  _orders.answered(worker, result.seconds);
  if (result.kind == WorkOrder::Kind::train && !own.orders.front().applies) {
    own.result = result;
    return _orders.sendApply(worker);
  }
  record(worker, own.orders.front(), _orders.applied(worker, result));
  _orders.end(worker);
  look(result.more);
}

/// Are there results to wait for?
bool Coordinator::working() const {
  if (_orders.busy() > 0) return true;
  return _orders.anyLate() && mayHandOut() && left() > 0;
}

std::int64_t Coordinator::step() const {
  return _progress.step(_state.epoch, _dispatcher.ended());
}

/// After each batch: writes a row if one is due, and finds out whether ranks should meet, unless `more`
/// batches have ended.
void Coordinator::look(bool more) {
  const std::int64_t now = _looked_at = step();
  report(now, false);
  if (more) return;
  const Position at{RunPhase::training, 0, now};
  _meeting_wanted = _meeting_wanted || _context.control.wantsMeeting(at, at, _orders.secondsToEnd());
}

/// Writes a row if one is due. `last`: the run ends here. Workers check only losses, which can stay finite:
/// the ReLU of a library may turn NaN into 0.
void Coordinator::report(std::int64_t step, bool last) {
  if (!_report.due(step, last)) return;
  if (!allFinite(_model.values(), _model.size())) { // which workers may change meanwhile
    BeforeDivergence::happen();
    throw RunError("the parameters are not finite at step " + std::to_string(step) +
                   " (try a smaller optimiser/learning_rate or strategy/rate_cap, or standardised data)");
  }
  _report.writeStep(step, _last_rate);
  _state.loss = _state.correct = _state.rows = 0.0;
}

const HogbatchState& Coordinator::state() {
  _state.groups = _controller.state();
  return _state;
}

WorkOrder Coordinator::workUntilMeeting(const std::function<bool(std::int64_t step)>& due) {
  WorkOrder order;
  order.kind = WorkOrder::Kind::meet;
  bool last = false;
  for (;;) {
    if (_state.cursor == 0 && _dispatcher.epochDone()) _dispatcher.startEpoch();
    handOut();
    while (working()) takeNext();
    _state.cursor = handedOut();
    order.step = _progress.step(_state.epoch, _state.cursor);
    const bool over = epochOver();
    if (over) {
      last = finished();
      order.evaluates = last || due(order.step);
      if (last) break;
      ++_state.epoch;
      _state.cursor = 0;
      if (order.evaluates || _meeting_wanted) break;
      continue;
    }
    if (_meeting_wanted) break;
    PARTITA_FAIL("samples are left, but no worker takes them");
  }
  _looked_at = order.step;
  while (awaitsLate()) takeNext();
  _report.writeWorkers(order.step);
  report(order.step, last);
  _meeting_wanted = false;
  rest();
  if (_context.losses != nullptr && !_context.losses->lost().empty()) return order;
  for (const WorkerCounts& worker : _state.workers)
    _mailbox.send(static_cast<int>(worker.rank), Tag::order, order);
  if (_server != nullptr) _server->serveMeeting();
  return order;
}

} // namespace partita
