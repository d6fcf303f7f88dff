#pragma once

#include "partita/strategy/observer.hpp"
#include "partita/train/table_file.hpp"

#include <memory>
#include <string>
#include <vector>

namespace partita {

/// Beginning of `workers.csv`, which identifies it as ours.
constexpr const char* workers_mark = "time_s,run_step,rank,role,";

/// An evaluation of the run that was better than all before it.
struct LossReached {
  double loss = 0.0, seconds = 0.0; ///< `seconds` of training, without evaluations
};

/// What rank 0 keeps of the workers of an asynchronous run: their latest reports, the table `workers.csv`,
/// and the times at which the loss fell.
class WorkerHistory {
 public:
  /// `path` empty: no table. See TableFile.
  WorkerHistory(const std::string& path, std::int64_t run_step);

  /// `now`: seconds since the start of the run.
  void add(double now, const WorkersSnapshot& snapshot);
  void addEvaluation(double loss);
  void flush();

  bool any() const { return !_latest.workers.empty(); }
  bool anyLost() const;
  const WorkersSnapshot& latest() const { return _latest; }
  const std::vector<LossReached>& reached() const { return _reached; }
  /// Share of the updates of each worker, 0..1.
  std::vector<double> shares() const;
  /// Share of the time in which each worker was busy, 0..1.
  std::vector<double> busy() const;
  /// "shares 0.52 0.48  batches 16 512" for the progress line; empty without workers.
  std::string line() const;

 private:
  std::unique_ptr<TableFile> _table; ///< null: none
  WorkersSnapshot _latest;
  std::vector<LossReached> _reached;
};

} // namespace partita
