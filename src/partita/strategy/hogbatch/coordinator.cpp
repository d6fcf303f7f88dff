#include "partita/strategy/hogbatch/coordinator.hpp"

#include "partita/plan/hogbatch/deck_mix.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace partita {

namespace {

/// `synchronous`: workers have equal parts in these first steps, in which their speeds are measured.
constexpr std::int64_t steps_to_measure = 4;

} // namespace

Coordinator::Coordinator(const RunContext& context, Mailbox& mailbox, const SharedModel& model)
    : _context(context), _section(context.config.strategy.hogbatch), _mailbox(mailbox), _model(model),
      _progress(context.config, context.length, static_cast<std::int64_t>(context.sets.train.size())),
      _controller(batchRules(context.config), workerGroups(context.config, context.grid.replicas())),
      _dispatcher(_progress.samples(), static_cast<std::size_t>(context.grid.replicas())),
      _rates{static_cast<double>(context.config.training.batch), _section.rate_cap},
      _workers(static_cast<std::size_t>(context.grid.replicas())), _report(context, _state) {
  if (synchronous() && !_section.speeds.empty()) {
    std::vector<double> speeds(_workers.size(), 1.0);
    std::copy(_section.speeds.begin(), _section.speeds.end(), speeds.begin());
    _controller.setSpeeds(speeds);
  }
  _state.workers.resize(_workers.size());
  for (std::size_t worker = 0; worker < _workers.size(); ++worker) {
    WorkerCounts& counts = _state.workers[worker];
    counts.rank = context.grid.plan().first_rank + static_cast<std::int64_t>(worker);
    counts.shared = static_cast<std::int64_t>(worker) < _section.shared_workers;
  }
  _state.groups = _controller.state();
}

void Coordinator::restore(const Position& position, const std::vector<double>& numbers) {
  const auto found = HogbatchState::from(numbers, _controller.groups(), _workers.size());
  const std::vector<WorkerCounts> places = _state.workers;
  if (found) {
    _state = *found;
    _controller.restore(_state.groups);
    for (std::size_t i = 0; i < places.size(); ++i) {
      _state.workers[i].rank = places[i].rank;
      _state.workers[i].shared = places[i].shared;
    }
  }
  if (!found || _progress.step(_state.epoch, _state.cursor) != position.step)
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
  return left() == 0 && busyWorkers() == 0;
}

bool Coordinator::finished() const {
  return left() == 0 && _progress.end(_state.epoch + 1) == 0;
}

std::int64_t Coordinator::busyWorkers() const {
  return std::count_if(_workers.begin(), _workers.end(),
                       [](const WorkerState& worker) { return !worker.orders.empty(); });
}

/// The learning rate of an update with the gradient of `examples` samples; as many as `begin` samples of the
/// epoch were handed out before.
double Coordinator::rateOf(std::int64_t examples, std::int64_t begin) const {
  const RunLength& length = _context.length;
  const std::int64_t step = std::min(_progress.step(_state.epoch, begin), length.steps - 1);
  return learningRate(_context.config.optimiser, step, length.steps, length.per_epoch) *
         _rates.factor(static_cast<double>(examples));
}

void Coordinator::give(std::size_t worker, const ExampleRange& range, const WorkOrder& base) {
  WorkerState& own = _workers[worker];
  WorkOrder order = base;
  order.number = _state.batches++;
  order.epoch = _state.epoch;
  order.first = range.first;
  order.count = range.count;
  own.orders.push_back(order);
  own.unsent.push_back(order);
  WorkerCounts& counts = _state.workers[worker];
  if (counts.batches == 0) counts.batch_first = range.count;
}

void Coordinator::sendOrders(std::size_t worker) {
  WorkerState& own = _workers[worker];
  if (own.unsent.empty()) return;
  own.since = Clock::now();
  _mailbox.sendAll(static_cast<int>(_state.workers[worker].rank), Tag::order, own.unsent);
  own.unsent.clear();
}

/// How many orders the worker should have. With `tolerate` only one, because an order to apply follows it.
std::size_t Coordinator::ordersOf(std::size_t worker) const {
  const WorkerState& own = _workers[worker];
  if (!mayHandOut() || own.late || own.failed) return 0;
  if (_section.tolerate) return 1;
  std::int64_t next = 0;
  for (std::size_t i = 0; i < _workers.size(); ++i) next += _controller.batch(workerGroup(_section, i), 1);
  const std::size_t orders = batchesAtOnce(own.last, left(), next);
  const Position soon{RunPhase::training, 0, _progress.step(_state.epoch, handedOut())};
  return _context.control.wantsMeeting(soon) ? 1 : orders; // before a meeting, none in advance
}

void Coordinator::handOut(std::size_t worker) {
  while (_workers[worker].orders.size() < ordersOf(worker) && giveNext(worker)) continue;
  sendOrders(worker);
}

/// Returns false if there is nothing to hand out.
bool Coordinator::giveNext(std::size_t worker) {
  const std::int64_t size = _controller.batch(workerGroup(_section, worker), 1),
                     count = std::min(size, left());
  if (count == 0 || !mayHandOut()) return false;
  const std::int64_t begin = handedOut();
  const auto range = _dispatcher.next(worker, count); // fewer samples, if they come from another worker
  if (!range) return false;
  WorkOrder order;
  order.rate = rateOf(range->count, begin);
  order.total = range->count;
  order.applies = !_section.tolerate;
  order.decay = _context.config.optimiser.weight_decay;
  _state.workers[worker].batch_last = size;
  give(worker, *range, order);
  return true;
}

/// A step that all workers take together: each computes its part of the gradient.
void Coordinator::beginStep() {
  if (_meeting_wanted || busyWorkers() > 0 || left() == 0) return;
  const std::int64_t total = std::min(_context.config.training.batch, left());
  const std::vector<std::int64_t> parts = _controller.split(total);
  WorkOrder order;
  order.applies = false;
  order.total = total;
  order.rate = rateOf(total, handedOut());
  for (std::size_t worker = 0; worker < _workers.size(); ++worker) {
    if (parts[worker] == 0) continue;
    const auto range = _dispatcher.next(worker, parts[worker]);
    if (!range) continue;
    _state.workers[worker].batch_last = range->count;
    // Only one part includes the decay: the sum of all parts is the step of one rank.
    order.decay = order.row == 0 ? _context.config.optimiser.weight_decay : 0.0;
    give(worker, *range, order);
    sendOrders(worker);
    order.row += range->count;
  }
  _applying = 0;
}

void Coordinator::handOut() {
  if (synchronous()) return beginStep();
  for (std::size_t worker = 0; worker < _workers.size(); ++worker) handOut(worker);
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
    if (_section.tolerate) dropLateWorkers();
    if (_server == nullptr || !_server->serve()) waiting.sleep(nap());
  }
}

void Coordinator::takeNext() {
  std::size_t worker = 0;
  const std::vector<WorkResult> results = receive(worker);
  for (const WorkResult& result : results) take(worker, result);
  if (!results.empty() && !synchronous()) handOut(worker);
}

/// Seconds to sleep at a time: a small fraction of the shortest batch, or longer if all workers have orders
/// in advance: a quarter of the time that these take, since some may be carried out already. Never longer if
/// workers are on other nodes, because they also wait for this rank to send them the model.
double Coordinator::nap() const {
  constexpr double longest = 5e-3, longest_alone = 1e-3;
  double seconds = longest;
  for (const WorkerState& worker : _workers) {
    if (worker.orders.empty()) continue;
    const auto advance = static_cast<double>(worker.orders.size() - 1);
    const bool can_wait = advance > 0.0 && _server == nullptr;
    seconds = std::min(seconds,
                       can_wait ? 0.25 * advance * worker.last : std::min(longest_alone, 0.05 * worker.last));
  }
  return std::max(seconds, 20e-6);
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
  totals.lost += result.applied.lost;
  totals.staleness_sum += static_cast<double>(result.applied.staleness);
  totals.staleness_max = std::max(totals.staleness_max, result.applied.staleness);
  _state.version = std::max(_state.version, result.applied.version + 1);
  _report.count(order.count);
  _controller.finished(workerGroup(_section, worker), 1, counts ? 1 : 0, order.count, result.seconds,
                       result.more);
  if (_log != nullptr) {
    _log->add({order.number, static_cast<std::int64_t>(worker), order.epoch, order.first, order.count,
               order.row, order.total, result.read, result.applied.version, result.applied.rate, order.decay,
               totals.shared});
  }
}

/// The worker has finished its oldest batch.
void Coordinator::endOrder(std::size_t worker) {
  _dispatcher.finished(worker);
  _workers[worker].orders.pop_front();
}

void Coordinator::take(std::size_t worker, const WorkResult& result) {
  if (_workers[worker].lost) return; // it was given up, but still answers: others have its batch
  _meeting_wanted = _meeting_wanted || result.wants_meeting;
  _state.workers[worker].busy_seconds += result.seconds;
  if (result.kind == WorkOrder::Kind::train && !result.failed && !_workers[worker].late) {
    _workers[worker].last = result.seconds;
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

/// Completes the result of an order to apply with the result of its gradient.
WorkResult Coordinator::applied(std::size_t worker, const WorkResult& result) {
  WorkerState& own = _workers[worker];
  if (!own.result) return result;
  WorkResult whole = *own.result;
  whole.applied = result.applied;
  own.result.reset();
  return whole;
}

void Coordinator::takeAlone(std::size_t worker, const WorkResult& result) {
  WorkerState& own = _workers[worker];
  if (own.late) { // others have done its batch, or it counts as done
    own.late = false;
    own.longest = std::max(own.longest, 2.0 * result.seconds / batches_until_late); // has twice as long now
    if (own.result) record(worker, own.applying, applied(worker, result));
    return;
  }
  if (result.failed) {
    own.failed = true;
    return drop(worker, "its loss is not finite");
  }
  own.longest = std::max(0.9 * own.longest, result.seconds); // slow batches are gradually forgotten
  if (result.kind == WorkOrder::Kind::train && !own.orders.front().applies) {
    own.result = result;
    return sendApply(worker);
  }
  record(worker, own.orders.front(), applied(worker, result));
  endOrder(worker);
  look(result.more);
}

void Coordinator::takeInStep(std::size_t worker, const WorkResult& result) {
  if (result.kind == WorkOrder::Kind::train) {
    _workers[worker].result = result;
    const bool all = std::all_of(_workers.begin(), _workers.end(), [](const WorkerState& other) {
      return other.orders.empty() || other.result;
    });
    if (all) applyNext();
    return;
  }
  record(worker, _workers[worker].orders.front(), applied(worker, result));
  endOrder(worker);
  applyNext();
}

void Coordinator::sendApply(std::size_t worker) {
  WorkOrder order = _workers[worker].orders.front();
  order.kind = WorkOrder::Kind::apply;
  _mailbox.send(static_cast<int>(_state.workers[worker].rank), Tag::order, order);
}

/// Are there results to wait for?
bool Coordinator::working() const {
  if (busyWorkers() > 0) return true;
  const bool late =
      std::any_of(_workers.begin(), _workers.end(), [](const WorkerState& worker) { return worker.late; });
  return late && mayHandOut() && left() > 0;
}

/// Parts are applied in the order of workers: the sum has the same bits whichever worker is ready first.
void Coordinator::applyNext() {
  while (_applying < _workers.size() && !_workers[_applying].result) ++_applying;
  if (_applying == _workers.size()) return endStep();
  sendApply(_applying);
}

void Coordinator::endStep() {
  look();
  if (++_steps_done == steps_to_measure && _section.speeds.empty()) _controller.resplit();
  beginStep();
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
  _meeting_wanted = _meeting_wanted || _context.control.wantsMeeting({RunPhase::training, 0, now});
}

/// Writes a row if one is due. `last`: the run ends here.
void Coordinator::report(std::int64_t step, bool last) {
  if (!_report.due(step, last)) return;
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
    PARTITA_REQUIRE(left() == 0, "samples are left, but no worker takes them");
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
