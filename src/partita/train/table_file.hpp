#pragma once

#include "partita/io/growing_file.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace partita {

/// Rows of an earlier run.
struct KeptRows {
  std::string text;
  double last_time = 0.0;
  bool others = false; ///< are there rows that this program cannot have written, or not in this order?
};

/// Numbers of columns.
struct TableColumns {
  std::size_t step;  ///< the step of the run, a whole number
  std::size_t order; ///< a number that never falls from row to row
};

/// A growing table of a run directory, as comma-separated values whose first column is the time in seconds.
class TableFile {
 public:
  /// Appends after the rows up to step `run_step` of the run and removes all other rows; but a file with rows
  /// that no such table has, or has in another order, is renamed (`setAside`). Throws UserError or
  /// SystemError if the file cannot be written.
  TableFile(const std::string& path, const std::string& header, TableColumns columns, std::int64_t run_step);

  double lastTime() const { return _last_time; } ///< of the rows found, in seconds
  /// See GrowingFile.
  void append(const std::string& rows) { _file.append(rows); }
  void flush() { _file.flush(); }
  void synchronise() { _file.synchronise(); }

 private:
  TableFile(const std::string& path, const std::string& header, const KeptRows& kept);

  double _last_time;
  GrowingFile _file;
};

} // namespace partita
