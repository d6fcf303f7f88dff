#pragma once

#include "partita/strategy/observer.hpp"

#include <fstream>
#include <string>

namespace partita {

/// `history.csv` of a run directory: a row a log interval and stage, and a row a stage at each evaluation.
/// Times are seconds since the start, accuracies percent; cells that do not apply are empty.
class HistoryFile {
 public:
  /// Throws UserError where the file cannot be written.
  explicit HistoryFile(const std::string& path);
  void add(double seconds, const StepReport& report);
  void add(double seconds, const EvaluationReport& report);

 private:
  std::ofstream _file;
};

} // namespace partita
