#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace partita {

/// A growing table of a run directory, as comma-separated values whose first column is the time in seconds.
/// Rows are written at once; rows for which the disk has no room are kept and retried with the next ones.
class TableFile {
 public:
  /// Appends after the rows up to step `run_step` of the run, which column `step_column` of each row names,
  /// and removes all other rows; but a file with rows that no such table has is renamed (`setAside`). Throws
  /// UserError if the file cannot be written.
  TableFile(std::string path, const std::string& header, std::size_t step_column, std::int64_t run_step);
  ~TableFile();
  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;

  double lastTime() const { return _last_time; } ///< of the rows found, in seconds
  /// Whole rows, each with its end of line.
  void append(const std::string& rows);
  /// Retries rows that could not be written. Throws UserError with the system's message if that fails again.
  /// Warns if somebody has removed the file.
  void flush();

 private:
  bool writeWaiting(); ///< returns false and sets `errno` if rows are left

  std::string _path, _waiting;
  int _file = -1;
  bool _warned = false, _lost = false;
  double _last_time = 0.0;
};

} // namespace partita
