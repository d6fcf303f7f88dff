#pragma once

#include "partita/strategy/observer.hpp"

#include <fstream>
#include <string>

namespace partita {

/// `history.csv` of a run directory: a row a log interval and stage, and a row a stage at each evaluation.
/// Times are seconds since the start, accuracies percent; cells that do not apply are empty.
class HistoryFile {
 public:
  /// Goes on behind the rows up to step `run_step` of the run, and removes all others.
  /// Throws UserError where the file cannot be written.
  explicit HistoryFile(const std::string& path, std::int64_t run_step = 0);
  double lastTime() const { return _last_time; } ///< of the rows found, seconds
  void add(double seconds, const StepReport& report);
  void add(double seconds, const EvaluationReport& report);

 private:
  std::ofstream _file;
  double _last_time = 0.0;
};

} // namespace partita
