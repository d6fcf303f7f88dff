#pragma once

#include <string>

namespace partita {

/// A file of a run directory to which rows are added while the run goes on. Rows for which the disk has no
/// room are kept and retried with the next ones.
class GrowingFile {
 public:
  /// Adds rows to what the file has. Throws UserError or SystemError if it cannot be written.
  explicit GrowingFile(std::string path);
  /// The same after the file was replaced by one with these rows; the old one is complete until then.
  GrowingFile(std::string path, const std::string& rows);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  /// Whole rows, each with its end of line, which are written at once. Warns if that fails for the first
  /// time.
  void append(const std::string& rows);
  /// Retries rows that could not be written. Throws UserError or SystemError with the system's message if
  /// that fails again. Warns if somebody has removed the file.
  void flush();
  /// `flush`, and puts the rows on disk. Throws also if the system failed to store rows that `write` had
  /// accepted. A descriptor opened later might not report that.
  void synchronise();

 private:
  bool writeWaiting(); ///< returns false and sets `errno` if rows are left

  std::string _path, _waiting;
  int _file = -1;
  bool _warned = false, _lost = false;
};

} // namespace partita
