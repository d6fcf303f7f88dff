#include "partita/strategy/hogbatch/order_book.hpp"

#include <algorithm>

namespace partita {

std::int64_t OrderBook::busy() const {
  return std::count_if(_workers.begin(), _workers.end(),
                       [](const WorkerOrders& worker) { return !worker.orders.empty(); });
}

bool OrderBook::anyLeft() const {
  return std::any_of(_workers.begin(), _workers.end(),
                     [](const WorkerOrders& worker) { return !worker.failed; });
}

bool OrderBook::anyLate() const {
  return std::any_of(_workers.begin(), _workers.end(),
                     [](const WorkerOrders& worker) { return worker.late; });
}

bool OrderBook::anyLost() const {
  return std::any_of(_workers.begin(), _workers.end(),
                     [](const WorkerOrders& worker) { return worker.lost; });
}

bool OrderBook::allComputed() const {
  return std::all_of(_workers.begin(), _workers.end(),
                     [](const WorkerOrders& worker) { return worker.orders.empty() || worker.result; });
}

void OrderBook::give(std::size_t worker, const ExampleRange& range, const WorkOrder& base) {
  WorkerOrders& own = _workers[worker];
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

void OrderBook::send(std::size_t worker) {
  WorkerOrders& own = _workers[worker];
  if (own.unsent.empty()) return;
  own.since = now();
  _mailbox.sendAll(static_cast<int>(_state.workers[worker].rank), Tag::order, own.unsent);
  own.unsent.clear();
}

void OrderBook::answered(std::size_t worker, double seconds) {
  double& longest = _workers[worker].longest;
  longest = std::max(0.9 * longest, std::min(seconds, waited(worker)));
}

double OrderBook::secondsToEnd() {
  double seconds = 0.0;
  for (std::size_t i = 0; i < _workers.size(); ++i) {
    const WorkerOrders& worker = _workers[i];
    if (worker.failed) continue;
    const auto orders = static_cast<double>(std::max<std::size_t>(1, worker.orders.size()));
    const bool works = worker.orders.size() > worker.unsent.size();
    seconds = std::max({seconds, orders * worker.longest, works ? waited(i) : 0.0});
  }
  return seconds;
}

double OrderBook::now() {
  constexpr double longest_gap = 1.0; // s; see `look`
  return _time.look(longest_gap);
}

void OrderBook::sendApply(std::size_t worker) {
  WorkOrder order = _workers[worker].orders.front();
  order.kind = WorkOrder::Kind::apply;
  _mailbox.send(static_cast<int>(_state.workers[worker].rank), Tag::order, order);
}

WorkResult OrderBook::applied(std::size_t worker, const WorkResult& result) {
  WorkerOrders& own = _workers[worker];
  if (!own.result) return result;
  WorkResult whole = *own.result;
  whole.applied = result.applied;
  own.result.reset();
  return whole;
}

void OrderBook::end(std::size_t worker) {
  _dispatcher.finished(worker);
  _workers[worker].orders.pop_front();
}

std::int64_t OrderBook::giveBack(std::size_t worker) {
  std::int64_t examples = 0;
  for (const WorkOrder& order : _workers[worker].orders) examples += order.count;
  _state.workers[worker].given_away += examples;
  _dispatcher.giveBack(worker);
  _workers[worker].orders.clear();
  return examples;
}

double OrderBook::nap(bool serves) const {
  constexpr double longest = 5e-3, longest_alone = 1e-3;
  double seconds = longest;
  for (const WorkerOrders& worker : _workers) {
    if (worker.orders.empty()) continue;
    const auto advance = static_cast<double>(worker.orders.size() - 1);
    const bool can_wait = advance > 0.0 && !serves;
    seconds = std::min(seconds,
                       can_wait ? 0.25 * advance * worker.last : std::min(longest_alone, 0.05 * worker.last));
  }
  return std::max(seconds, 20e-6);
}

} // namespace partita
