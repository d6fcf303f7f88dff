#include "partita/config/text.hpp"
#include "partita/core/log.hpp"
#include "partita/plan/hogbatch/deck_mix.hpp"
#include "partita/strategy/divergence.hpp"
#include "partita/strategy/hogbatch/coordinator.hpp"

#include <algorithm>

namespace partita {

// What the coordinator does about workers that fail, are late, or are lost.

std::string Coordinator::nameOf(std::size_t worker) const {
  const int rank = static_cast<int>(_state.workers[worker].rank);
  return "rank " + std::to_string(_context.grid.world().worldRank(rank)) + ": ";
}

/// Gives the batch of a worker to others. A worker with `failed` gets no more batches.
void Coordinator::drop(std::size_t worker, const std::string& why) {
  WorkerOrders& own = _orders[worker];
  Log::warning(nameOf(worker) + why + "; its batch goes to other workers (strategy/tolerate)");
  _orders.giveBack(worker);
  own.result.reset();
  if (own.failed) _controller.lose(workerGroup(_section, worker));
  if (!_orders.anyLeft()) {
    BeforeDivergence::happen();
    throw RunError("all workers have failed: the loss is not finite (try a smaller optimiser/learning_rate)");
  }
  handOut();
}

/// Returns whether any worker is newly lost.
bool Coordinator::dropLostWorkers(const std::set<int>& ranks) {
  bool any = false;
  for (std::size_t worker = 0; worker < _orders.size(); ++worker) {
    if (_orders[worker].lost || ranks.count(static_cast<int>(_state.workers[worker].rank)) == 0) continue;
    lose(worker);
    any = true;
  }
  if (!any) return false;
  if (!_orders.anyLeft()) throw RunError("all workers are lost (strategy/tolerate)");
  _meeting_wanted = true; // the remaining ranks start again after they have finished their batches
  handOut();
  return true;
}

void Coordinator::lose(std::size_t worker) {
  WorkerOrders& own = _orders[worker];
  WorkerCounts& counts = _state.workers[worker];
  const int rank = static_cast<int>(counts.rank);
  if (_server != nullptr) _server->forget(rank); // a request that has arrived would still be served
  const std::string batch = settle(worker);
  _model.freeLockOf(rank); // only now: others may then change the model
  if (!own.failed) _controller.lose(workerGroup(_section, worker));
  own.lost = own.failed = true;
  own.late = false;
  own.result.reset();
  counts.lost_step = _looked_at;
  counts.lost_seconds = _report.secondsOfRun();
  Log::warning(nameOf(worker) + "the worker is lost after step " + std::to_string(_looked_at) + batch +
               " (strategy/tolerate)");
}

/// Decides what becomes of the batch of a lost worker. If it was told to change the model, shared memory
/// shows whether it had begun. If so, the batch counts as done, because the change cannot be undone.
std::string Coordinator::settle(std::size_t worker) {
  WorkerOrders& own = _orders[worker];
  if (!own.result) {
    const std::int64_t examples = _orders.giveBack(worker);
    return examples == 0 ? "" : "; other workers get " + counted(examples, "example");
  }
  const WorkOrder order = own.late ? own.applying : own.orders.front();
  const SharedModel::Progress progress =
      _model.giveUp(static_cast<int>(_state.workers[worker].rank), order.number);
  if (!own.late && !progress.begun)
    return "; other workers get " + counted(_orders.giveBack(worker), "example");
  WorkResult result;
  result.applied = progress.applied;
  record(worker, order, _orders.applied(worker, result));
  if (!own.late) _orders.end(worker);
  if (progress.ended) return "; it had changed the model with its last batch";
  if (!progress.begun) return "; it had not changed the model with its last batch, which is left out";
  return "; it was changing the model with its last batch, which counts as done: --replay can no longer "
         "repeat the run bit for bit";
}

/// The worker was told to change the model and may still do so, so its batch does not go to others.
void Coordinator::keepLateChange(std::size_t worker, const std::string& why) {
  WorkerOrders& own = _orders[worker];
  Log::warning(nameOf(worker) + why +
               "; it may still change the model, and the others continue (strategy/tolerate)");
  own.applying = own.orders.front();
  _orders.end(worker);
  handOut();
}

void Coordinator::dropLateWorkers() {
  constexpr double shortest = 5.0; // s
  for (std::size_t worker = 0; worker < _orders.size(); ++worker) {
    WorkerOrders& own = _orders[worker];
    const double limit = std::max(shortest, batches_until_late * own.longest);
    if (own.orders.empty() || _orders.waited(worker) < limit) continue;
    own.late = true;
    const std::string why = "no result for " + std::to_string(static_cast<std::int64_t>(limit)) + " s";
    if (!own.result) {
      drop(worker, why);
    } else {
      keepLateChange(worker, why);
    }
  }
}

/// Before a meeting: must late workers be awaited? A worker is awaited if it will still change the model by a
/// batch that counts as done, or if it may have to be given up. After a loss only the former counts: a worker
/// that is still in the last meeting may wait for the lost one until it is told to leave.
bool Coordinator::awaitsLate() const {
  const bool gives_up = _context.losses != nullptr && !_orders.anyLost();
  for (std::size_t worker = 0; worker < _orders.size(); ++worker)
    if (_orders[worker].late && (_orders[worker].result || gives_up)) return true;
  return false;
}

} // namespace partita
