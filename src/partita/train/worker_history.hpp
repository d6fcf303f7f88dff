#pragma once

#include "partita/strategy/observer.hpp"
#include "partita/train/table_file.hpp"

#include <memory>
#include <string>
#include <vector>

namespace partita {

/// Beginning of `workers.csv`, which identifies it as ours.
constexpr const char* workers_mark = "time_s,run_step,rank,role,";

/// What rank 0 keeps of the workers of an asynchronous run: their latest reports, and the table
/// `workers.csv`.
class WorkerHistory {
 public:
  /// `path` empty: no table. See TableFile; rows up to `run_step` are in the table.
  WorkerHistory(const std::string& path, std::int64_t run_step);

  /// `now`: seconds since the start of the run.
  void add(double now, const WorkersSnapshot& snapshot);
  void flush();
  void synchronise();

  bool any() const { return !_latest.workers.empty(); }
  bool anyLost() const;
  const WorkersSnapshot& latest() const { return _latest; }
  /// Share of the updates of each worker, 0..1.
  std::vector<double> shares() const;
  /// Share of the time in which each worker was busy, 0..1.
  std::vector<double> busy() const;
  /// "shares 0.52 0.48  batches 16 512" for the progress line; empty without workers.
  std::string line() const;

 private:
  std::unique_ptr<TableFile> _table; ///< null: none
  WorkersSnapshot _latest;
  std::int64_t _written; ///< last step whose rows are in the table
};

} // namespace partita
