#pragma once

#include <functional>
#include <sstream>
#include <string>

namespace partita {

/// The format of a file of rows, which the program writes and reads again in a later call.
struct RowFormat {
  std::string name; ///< begins the first line, before the version: "partita search"
  int version;
  std::string foreign; ///< what a message says of another file: "is not the state of a search"
  std::string damaged; ///< and of a row that cannot be read: "is not a row of a search"

  std::string mark() const { return name + " " + std::to_string(version); }
};

/// Reads such a file. Lines end in LF, as the program writes them. A last row that does not end in a newline
/// was cut off, for example by a full disk. It is left out, and the program computes it again.
class RowReader {
 public:
  /// `text`: the content of `file`. Throws UserError if the file does not begin with the mark of the format,
  /// or its first line ends in CRLF.
  RowReader(const std::string& text, std::string file, RowFormat format);

  const std::string& first() const { return _first; } ///< the first line
  /// Calls `read` for each row. If it returns false, the row is damaged: throws UserError with its line. So
  /// does a row that ends in CRLF.
  void readRows(const std::function<bool(const std::string& row)>& read);

 private:
  std::istringstream _lines;
  std::string _file, _first;
  RowFormat _format;
};

} // namespace partita
