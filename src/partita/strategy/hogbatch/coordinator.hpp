#pragma once

#include "partita/strategy/hogbatch/decisions.hpp"
#include "partita/strategy/hogbatch/model_server.hpp"
#include "partita/strategy/hogbatch/order_book.hpp"
#include "partita/strategy/hogbatch/progress.hpp"

namespace partita {

/// Rank 0 of an asynchronous run: hands out the samples of each epoch to workers 0, 1, ... (ranks 1, 2, ...)
/// and keeps count. It computes nothing, and sleeps while there is nothing to do.
class Coordinator {
 public:
  Coordinator(const RunContext& context, Mailbox& mailbox, const SharedModel& model);
  /// Sets the server of workers on other nodes; null: there are none.
  void setServer(ModelServer* server) { _server = server; }
  /// Logs decisions from now on; null: logs none.
  void setLog(DecisionLog* log) { _log = log; }

  /// Continues at a position. The numbers of an earlier coordinator are used if they fit the workers.
  void restore(const Position& position, const std::vector<double>& numbers);
  const HogbatchState& state();
  /// Hands out work until all ranks should meet: at the end of an epoch if `due(step)`, when a rank asks for
  /// it, after the loss of a worker, and at the end of the run. Returns the order to meet, and sends it to
  /// all workers unless one is lost.
  WorkOrder workUntilMeeting(const std::function<bool(std::int64_t step)>& due);
  /// To be called after a meeting.
  void resume(std::int64_t step) { _report.resume(step); }
  /// The workers, with their ranks in the job.
  std::vector<WorkerCounts> reports() const { return _report.named(); }
  void showWorkers(std::int64_t step) const { _report.writeWorkers(step); }
  /// Stops the clock until `resume`.
  void rest() { _state.seconds = _report.rest(); }
  /// After an evaluation, while all ranks are together.
  void evaluated(std::int64_t step, double loss);

 private:
  /// With `tolerate`, a worker is late when an order takes this many times as long as its longest recent one.
  static constexpr double batches_until_late = 50.0;

  void setGivenSpeeds(); ///< those of the deck, if it has any
  bool synchronous() const { return _controller.rules().rule == WorkerRule::synchronous; }
  std::int64_t handedOut() const; ///< samples of the epoch
  std::int64_t step() const;      ///< after the batches that have ended
  std::int64_t left() const;      ///< samples of the epoch that may be handed out
  bool epochOver() const;
  bool finished() const; ///< at the end of an epoch: is it the last one?
  double rateOf(std::int64_t examples, std::int64_t begin) const;

  void handOut();
  void handOut(std::size_t worker);
  double secondsLeft() const;
  std::size_t ordersOf(std::size_t worker);
  bool giveNext(std::size_t worker);
  void beginStep();
  std::vector<WorkResult> receive(std::size_t& worker);
  void takeNext();
  void take(std::size_t worker, const WorkResult& result);
  void takeAlone(std::size_t worker, const WorkResult& result);
  void takeInStep(std::size_t worker, const WorkResult& result);
  void dropLateWorkers();
  void drop(std::size_t worker, const std::string& why);
  std::string nameOf(std::size_t worker) const;
  bool dropLostWorkers(const std::set<int>& ranks);
  void lose(std::size_t worker);
  std::string settle(std::size_t worker);
  bool mayHandOut() const { return !_meeting_wanted || _dispatcher.hasGivenBack(); }
  void keepLateChange(std::size_t worker, const std::string& why);
  bool awaitsLate() const;
  bool working() const;
  void applyNext();
  void endStep();
  void record(std::size_t worker, const WorkOrder& order, const WorkResult& result);
  void look(bool more = false);
  void report(std::int64_t step, bool last);

  const RunContext& _context;
  const HogbatchSection& _section;
  Mailbox& _mailbox;
  const SharedModel& _model;
  DecisionLog* _log = nullptr;
  ModelServer* _server = nullptr;
  SampleProgress _progress;
  BatchController _controller;
  BatchDispatcher _dispatcher;
  RateScale _rates;
  HogbatchState _state;
  OrderBook _orders;
  bool _meeting_wanted = false; ///< only returned batches are handed out
  std::size_t _applying = 0;    ///< synchronous: the next worker to apply its part
  std::int64_t _steps_done = 0; ///< synchronous: of this process
  CourseReport _report;
  double _last_rate = 0.0;
  std::int64_t _looked_at = 0; ///< step
};

} // namespace partita
