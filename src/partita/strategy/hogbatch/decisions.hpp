#pragma once

#include "partita/io/growing_file.hpp"
#include "partita/strategy/hogbatch/messages.hpp"

#include <memory>
#include <string>
#include <vector>

namespace partita {

/// Beginning of `decisions.csv`, which identifies it as ours.
constexpr const char* decisions_mark = "number,worker,epoch,first,";

/// What happened to one batch of an asynchronous run.
struct Decision {
  std::int64_t number = 0, worker = 0, epoch = 0, first = 0, count = 0, row = 0, total = 0;
  std::int64_t read = 0;    ///< version of the model that its gradient was computed from
  std::int64_t applied = 0; ///< version that it changed; negative: dropped
  double rate = 0.0, decay = 0.0;
  bool in_place = false; ///< by a shared worker: added as a change, whatever strategy/merge says
};

/// `decisions.csv` of a run directory: one row per batch, in the order of the results. All numbers are exact,
/// and a check word chains each row to the one before.
class DecisionLog {
 public:
  /// Keeps the rows of the first `version` updates in the file, or all whole rows if `goes_on`; a file that
  /// somebody has removed meanwhile begins again, with a warning. Throws UserError or SystemError if the file
  /// cannot be written.
  DecisionLog(const std::string& path, std::int64_t version, bool goes_on);
  ~DecisionLog() { _file->append(_rows); }
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;
  void add(const Decision& decision);
  /// See GrowingFile.
  void flush();
  void synchronise();

 private:
  std::string nextRow(const Decision& decision);

  std::string _last; ///< row of the log, without its end of line
  std::string _rows; ///< not given to the file yet
  std::unique_ptr<GrowingFile> _file;
};

/// Makes the run of a deck repeat the decisions in a file. Throws UserError if it cannot be read.
void repeatDecisions(RunConfig& deck, const std::string& path);

/// Would the same decisions change the model in the same way with both decks?
bool changeAlike(const RunConfig& one, const RunConfig& other);

/// Reads the rows of a file, of which a run that was killed may have left the last one incomplete. Throws
/// UserError with file and line if a row is not valid or not what the program has written.
std::vector<Decision> readDecisions(const std::string& path);

} // namespace partita
