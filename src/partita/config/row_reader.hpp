#pragma once

#include <functional>
#include <sstream>
#include <string>

namespace partita {

/// What a file of rows is: the program writes it and reads it again in a later call.
struct RowFormat {
  std::string name; ///< begins the first line, with the version: "partita search 2"
  int version;
  std::string foreign; ///< says of another file: "is not the state of a search"
  std::string damaged; ///< says of a row that cannot be read: "is not a row of a search"

  std::string mark() const { return name + " " + std::to_string(version); }
};

/// Reads such a file. A last row without its end was cut off, for example by a full disk, and is left out:
/// the program computes it again.
class RowReader {
 public:
  /// `text`: the content of `file`. Throws UserError if the file does not begin with the mark of the format.
  RowReader(const std::string& text, std::string file, RowFormat format);

  const std::string& first() const { return _first; } ///< the first line
  /// Calls `read` for each row; throws UserError with the line if it returns false, as for damaged rows.
  void readRows(const std::function<bool(const std::string& row)>& read);

 private:
  std::istringstream _lines;
  std::string _file, _first;
  RowFormat _format;
};

} // namespace partita
