#pragma once

#include "partita/strategy/observer.hpp"

#include <sstream>
#include <string>

namespace partita {

/// How the file begins, by which it is known as ours; later columns may be added.
constexpr const char* history_mark = "time_s,event,stage,epoch,step,run_step,";

/// `history.csv` of a run directory: a row a log interval and stage, and a row a stage at each evaluation.
/// Times are seconds since the start, accuracies percent; cells that do not apply are empty. Rows are on
/// their way to the disk at once; those that it has no room for are kept and tried again with the next ones.
class HistoryFile {
 public:
  /// Goes on behind the rows up to step `run_step` of the run, and removes all others.
  /// Throws UserError where the file cannot be written.
  explicit HistoryFile(const std::string& path, std::int64_t run_step = 0);
  ~HistoryFile();
  HistoryFile(const HistoryFile&) = delete;
  HistoryFile& operator=(const HistoryFile&) = delete;

  double lastTime() const { return _last_time; } ///< of the rows found, seconds
  void add(double seconds, const StepReport& report);
  void add(double seconds, const EvaluationReport& report);

  /// Tries rows again that could not be written. Throws UserError with what the system says where it still
  /// cannot.
  void flush();

 private:
  void append(const std::ostringstream& rows);
  bool writeWaiting(); ///< false, and `errno`, where rows are left

  std::string _path, _waiting;
  int _file = -1;
  bool _warned = false;
  double _last_time = 0.0;
};

} // namespace partita
