#pragma once

#include "partita/strategy/observer.hpp"
#include "partita/train/table_file.hpp"

#include <string>

namespace partita {

/// Beginning of the file, which identifies it as ours; later columns may be added.
constexpr const char* history_mark = "time_s,event,stage,epoch,step,run_step,";

/// `history.csv` of a run directory: one row per log interval and stage, and one row per stage at each
/// evaluation. Times are seconds since the start, accuracies percent; cells that do not apply are empty.
class HistoryFile {
 public:
  /// Continues after run step `run_step`, see TableFile.
  explicit HistoryFile(const std::string& path, std::int64_t run_step = 0);

  double lastTime() const { return _table.lastTime(); } ///< of the rows found, in seconds
  void add(double seconds, const StepReport& report);
  void add(double seconds, const EvaluationReport& report);
  void flush() { _table.flush(); }
  void synchronise() { _table.synchronise(); }

 private:
  TableFile _table;
};

} // namespace partita
