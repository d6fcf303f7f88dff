#pragma once

#include "partita/comm/mailbox.hpp"
#include "partita/core/watched_time.hpp"
#include "partita/plan/hogbatch/batch_dispatcher.hpp"
#include "partita/strategy/hogbatch/messages.hpp"
#include "partita/strategy/hogbatch/run_state.hpp"

#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace partita {

/// A worker has `orders` while it works. It also has a `result` from the moment at which its gradient is
/// known until it has changed the model. A late worker has no orders. If it has no `result`, others have its
/// batch; if it has one, its batch counts as done while the worker still carries out `applying`. A failed
/// worker has neither orders nor a result and is not late; a lost worker has failed as well.
struct WorkerOrders {
  std::deque<WorkOrder> orders;     ///< to train, the oldest first: results come in this order
  std::vector<WorkOrder> unsent;    ///< the last ones of `orders`
  std::optional<WorkResult> result; ///< of its gradient, if that is not applied at once
  bool late = false;                ///< has not answered in time
  WorkOrder applying;               ///< only if late with `result`
  bool failed = false;              ///< gets no more batches
  bool lost = false;                ///< its process has died or was given up
  double since = 0.0;               ///< s, when its last order to train was sent
  double last = 0.0, longest = 0.0; ///< s, of its batches; the last one that was not short
  std::int64_t last_examples = 0;   ///< of that batch

  /// The gradient of the oldest order has taken these seconds.
  void time(double seconds) {
    const WorkOrder& order = orders.front();
    if (order.count < order.wanted && last > 0.0) return;
    last = seconds;
    last_examples = order.count;
  }
};

/// The orders of all workers, on rank 0: which worker has which samples, and whether it has answered. Numbers
/// the batches of the run, and sends the orders. The references must outlive it.
class OrderBook {
 public:
  OrderBook(Mailbox& mailbox, BatchDispatcher& dispatcher, HogbatchState& state, std::size_t workers,
            WatchedTime time = WatchedTime())
      : _mailbox(mailbox), _dispatcher(dispatcher), _state(state), _workers(workers), _time(std::move(time)) {
  }

  std::size_t size() const { return _workers.size(); }
  WorkerOrders& operator[](std::size_t worker) { return _workers[worker]; }
  const WorkerOrders& operator[](std::size_t worker) const { return _workers[worker]; }

  std::int64_t busy() const; ///< number of workers with orders
  bool anyLeft() const;      ///< that has not failed
  bool anyLate() const;
  bool anyLost() const;
  /// Has every worker with an order computed its gradient?
  bool allComputed() const;

  /// Adds an order like `base` for a batch of the epoch; it is not sent yet.
  void give(std::size_t worker, const ExampleRange& range, const WorkOrder& base);
  void send(std::size_t worker);
  /// The worker is to change the model by the gradient of its oldest order.
  void sendApply(std::size_t worker);
  /// To be called often while the coordinator waits, because at most a second counts of the time between two
  /// calls of this or the next function.
  void look() { now(); }
  /// Seconds since orders to train were sent to this worker. If the whole job was suspended, the worker could
  /// not answer either.
  double waited(std::size_t worker) { return now() - _workers[worker].since; }
  /// The worker has carried out an order, in these seconds of its own clock. If it has no other
  /// order, a suspension hardly counts. Slow batches are gradually forgotten.
  void answered(std::size_t worker, double seconds);
  /// Seconds until all orders are carried out, if each takes as long as the longest recent one of its worker,
  /// and every worker has one; or as long as a worker has taken so far, if that is more.
  double secondsToEnd();
  /// Completes the result of an order to apply with the result of its gradient.
  WorkResult applied(std::size_t worker, const WorkResult& result);
  /// The worker has finished its oldest batch.
  void end(std::size_t worker);
  /// The worker loses its batches. Returns how many examples others will get.
  std::int64_t giveBack(std::size_t worker);

  /// Seconds to sleep at a time: a small fraction of the shortest batch. If all workers have orders in
  /// advance, a quarter of the time that these take, since some may have been carried out already; but not if
  /// workers are on other nodes (`serves`), which also wait for this rank to send them the model.
  double nap(bool serves) const;

 private:
  double now();

  Mailbox& _mailbox;
  BatchDispatcher& _dispatcher;
  HogbatchState& _state;
  std::vector<WorkerOrders> _workers;
  WatchedTime _time;
};

} // namespace partita
