#include "partita/config/row_reader.hpp"

#include "partita/config/user_error.hpp"

#include <utility>

namespace partita {

namespace {

/// Does a line begin with these words?
bool beginsWith(const std::string& line, const std::string& words) {
  return (line + " ").rfind(words + " ", 0) == 0;
}

/// An editor or a transfer may have changed the line ends; nothing else would show that in a message.
void refuseCrlf(const std::string& place, const std::string& line) {
  if (!line.empty() && line.back() == '\r')
    throw UserError(place + ": the line ends in CRLF, as on Windows, instead of LF");
}

} // namespace

RowReader::RowReader(const std::string& text, std::string file, RowFormat format)
    : _lines(text), _file(std::move(file)), _format(std::move(format)) {
  std::getline(_lines, _first);
  if (_first.rfind(_format.name, 0) == 0) refuseCrlf(_file + ":1", _first);
  if (beginsWith(_first, _format.mark())) return;
  const std::string version = beginsWith(_first, _format.name) ? " of this version of the program" : "";
  throw UserError(_file + ": " + _format.foreign + version + "; its first line must begin with '" +
                  _format.mark() + "'");
}

void RowReader::readRows(const std::function<bool(const std::string& row)>& read) {
  std::string line;
  for (int number = 2; std::getline(_lines, line) && !_lines.eof(); ++number) {
    const std::string place = _file + ":" + std::to_string(number);
    refuseCrlf(place, line);
    if (!read(line)) throw UserError(place + ": " + _format.damaged);
  }
}

} // namespace partita
