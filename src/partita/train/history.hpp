#pragma once

#include "partita/strategy/observer.hpp"

#include <sstream>
#include <string>

namespace partita {

/// Beginning of the file, which identifies it as ours; later columns may be added.
constexpr const char* history_mark = "time_s,event,stage,epoch,step,run_step,";

/// `history.csv` of a run directory: one row per log interval and stage, and one row per stage at each
/// evaluation. Times are seconds since the start, accuracies percent; cells that do not apply are empty. Rows
/// are written at once; rows for which the disk has no room are kept and retried with the next ones.
class HistoryFile {
 public:
  /// Appends after the rows up to step `run_step` of the run, and removes all other rows. Throws UserError if
  /// the file cannot be written.
  explicit HistoryFile(const std::string& path, std::int64_t run_step = 0);
  ~HistoryFile();
  HistoryFile(const HistoryFile&) = delete;
  HistoryFile& operator=(const HistoryFile&) = delete;

  double lastTime() const { return _last_time; } ///< of the rows found, in seconds
  void add(double seconds, const StepReport& report);
  void add(double seconds, const EvaluationReport& report);

  /// Retries rows that could not be written. Throws UserError with the system's message if that fails again.
  void flush();

 private:
  void append(const std::ostringstream& rows);
  bool writeWaiting(); ///< returns false and sets `errno` if rows are left

  std::string _path, _waiting;
  int _file = -1;
  bool _warned = false;
  double _last_time = 0.0;
};

} // namespace partita
