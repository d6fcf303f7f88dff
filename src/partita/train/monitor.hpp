#pragma once

#include "partita/comm/grid.hpp"
#include "partita/comm/mailbox.hpp"
#include "partita/core/clock.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/strategy/observer.hpp"
#include "partita/train/history.hpp"
#include "partita/train/worker_history.hpp"

#include <map>
#include <memory>
#include <set>

namespace partita {

/// Observes the strategy on every rank; rank 0 gathers the reports of the others, keeps the history and shows
/// progress. Reports travel through the mailbox, so that no stage waits until its report is received.
class Monitor : public Observer {
 public:
  /// Where a run begins: at step 0, or where an earlier one ended.
  struct Start {
    Position position;
    double elapsed = 0.0;       ///< seconds spent before
    std::int64_t kept_rows = 0; ///< rows of an earlier run up to this step stay in the files
  };
  /// `history` and `workers` are files that rank 0 writes; if empty, none is kept. `length` is used for the
  /// remaining time. Throws UserError on rank 0 if a file cannot be written.
  Monitor(const RunConfig& config, const Partition& partition, const Grid& grid, Mailbox& mailbox,
          const std::string& history, const std::string& workers, std::int64_t classes,
          const RunLength& length, const Start& start);

  void onStep(const StepReport& report) override;
  void onEvaluation(const EvaluationReport& report) override;
  void onWorkers(const WorkersSnapshot& snapshot) override { _workers.add(seconds(), snapshot); }

  const WorkerHistory& workers() const { return _workers; } ///< on rank 0

  /// Processes what other ranks have sent so far: everything, if the mailbox is closed.
  void pump();

  /// On rank 0: throws UserError if rows of the history are not in the file.
  void flushHistory();
  /// On rank 0: throws UserError if rows of the history are not on disk.
  void synchroniseHistory();

  /// Seconds since the start of the run, including those before a restart.
  double seconds() const;
  /// Reports that this rank has sent so far.
  std::int64_t sent() const { return _sent; }
  /// On rank 0: returns whether it has processed the given number of reports from each rank.
  bool hasHeard(const std::vector<double>& reports) const;

 private:
  void take(const StepReport& report);
  void show(const std::vector<StepReport>& stages); ///< reports on one step
  void warnOfStagesThatDoNotLearn(const EvaluationReport& report);
  void warnOfStagesThatForget(const EvaluationReport& report) const;
  /// The step count of the history continues through the recovery, whose own steps begin again at 1.
  template <class Report>
  Report placedInRun(Report report) const;
  bool wholeNetwork() const;                 ///< does the network train as a whole, in several stages?
  bool recovering(std::int64_t stage) const; ///< is a report for this stage part of the recovery?
  bool trainsTogether(const StepReport& report) const;
  double shareDone() const; ///< share of the run's FLOPs, 0..1

  const RunConfig& _config;
  const Partition& _partition;
  const Grid& _grid;
  Mailbox& _mailbox;
  std::unique_ptr<HistoryFile> _history;
  WorkerHistory _workers;
  std::int64_t _classes;
  RunLength _length;
  std::int64_t _sent = 0;
  std::vector<std::int64_t> _heard; ///< number of reports from each rank, on rank 0
  double _elapsed_before, _share_before = 0.0;
  std::vector<StepReport> _latest;                          ///< by stage; 0: the joined network
  std::map<std::int64_t, std::vector<StepReport>> _waiting; ///< by step, until all stages have reported
  std::set<std::size_t> _warned;                            ///< stages that did not learn
  Clock::time_point _start = Clock::now();
  IdleHook _hook;
};

} // namespace partita
