#include "partita/strategy/hogbatch/coordinator.hpp"

#include <algorithm>

namespace partita {

// What the coordinator does if all workers take each step together (`synchronous`).

namespace {

/// Workers have equal parts in the first steps. In the first one they warm up; in the others their speeds are
/// measured.
constexpr std::int64_t steps_to_warm_up = 1, steps_to_measure = 4;

} // namespace

/// A step that all workers take together: each computes its part of the gradient.
void Coordinator::beginStep() {
  if (_meeting_wanted || _orders.busy() > 0 || left() == 0) return;
  const std::int64_t total = std::min(_context.config.training.batch, left());
  const std::vector<std::int64_t> parts = _controller.split(total);
  WorkOrder order;
  order.applies = false;
  order.total = total;
  order.rate = rateOf(total, handedOut());
  for (std::size_t worker = 0; worker < _orders.size(); ++worker) {
    if (parts[worker] == 0) continue;
    const auto range = _dispatcher.next(worker, parts[worker]);
    if (!range) continue;
    _state.workers[worker].batch_last = range->count;
    // Only one part includes the decay: the sum of all parts is the step of one rank.
    order.decay = order.row == 0 ? _context.config.optimiser.weight_decay : 0.0;
    _orders.give(worker, *range, order);
    _orders.send(worker);
    order.row += range->count;
  }
  _applying = 0;
}

void Coordinator::takeInStep(std::size_t worker, const WorkResult& result) {
  if (result.kind == WorkOrder::Kind::train) {
    _orders[worker].result = result;
    if (_orders.allComputed()) applyNext();
    return;
  }
  WorkResult whole = _orders.applied(worker, result);
  whole.applied.staleness = 0; // all parts of a step are computed from the same parameters
  record(worker, _orders[worker].orders.front(), whole);
  _orders.end(worker);
  applyNext();
}

/// Parts are applied in the order of workers: the sum has the same bits whichever worker is ready first.
void Coordinator::applyNext() {
  while (_applying < _orders.size() && !_orders[_applying].result) ++_applying;
  if (_applying == _orders.size()) return endStep();
  _orders.sendApply(_applying);
}

void Coordinator::endStep() {
  look();
  ++_steps_done;
  if (_steps_done == steps_to_warm_up) _controller.forgetTimes();
  if (_steps_done == steps_to_warm_up + steps_to_measure && _section.speeds.empty()) _controller.resplit();
  beginStep();
}

} // namespace partita
