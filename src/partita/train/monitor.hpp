#pragma once

#include "partita/comm/grid.hpp"
#include "partita/strategy/observer.hpp"
#include "partita/strategy/stage_trainer.hpp"
#include "partita/train/history.hpp"

#include <chrono>
#include <memory>
#include <set>

namespace partita {

/// Listens to the strategy on every rank; rank 0 gathers what the others tell, keeps the history and shows
/// progress. Reports travel as small messages of their own, so that no stage waits to be heard.
class Monitor : public Observer {
 public:
  /// `history` empty: none is kept. `count`: steps of each stage, for the time left.
  Monitor(const RunConfig& config, const Partition& partition, const Grid& grid, const std::string& history,
          std::int64_t classes, const StepCount& count);
  ~Monitor() override;

  void onStep(const StepReport& report) override;
  void onEvaluation(const EvaluationReport& report) override;

  /// Takes in what other ranks have sent until now.
  void pump();
  /// Waits for the last report of every rank. Collective.
  void finish();

 private:
  void tell(const StepReport& report, int tag) const; ///< to rank 0
  void take(const StepReport& report);
  void show(const StepReport& report);
  void warnOfStagesThatDoNotLearn(const EvaluationReport& report);
  /// The history counts on through the recovery, whose own steps begin again at 1.
  template <class Report>
  Report placedInRun(Report report) const;
  bool trainsTogether(const StepReport& report) const;
  double shareDone() const; ///< of the run's FLOPs, 0..1
  double seconds() const;

  const RunConfig& _config;
  const Partition& _partition;
  const Grid& _grid;
  std::unique_ptr<HistoryFile> _history;
  std::int64_t _classes;
  StepCount _count;
  int _silent_ranks = 0;              ///< that have sent their last report
  std::vector<StepReport> _latest;    ///< of each stage; 0: the joined network
  std::set<std::size_t> _warned;      ///< stages that did not learn
  std::set<std::int64_t> _not_finite; ///< stages whose loss was not a number
  std::chrono::steady_clock::time_point _start = std::chrono::steady_clock::now();
};

} // namespace partita
