#include "partita/train/table_file.hpp"

#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/io/output_file.hpp"
#include "partita/train/set_aside.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>
#include <utility>
#include <vector>

namespace partita {

namespace {

std::vector<std::string> cellsOf(const std::string& row) {
  std::vector<std::string> cells(1);
  for (const char c : row) {
    if (c == ',') {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

struct KeptRows {
  std::string text;
  double last_time = 0.0;
  bool others = false; ///< are there rows that this program cannot have written?
};

/// The complete rows up to a step; a row that a killed run has left half written is dropped.
KeptRows rowsUpTo(const std::string& path, const std::string& header, std::size_t step_column,
                  std::int64_t run_step) {
  KeptRows kept;
  std::ifstream file(path);
  std::string row;
  if (run_step == 0) return kept;
  std::error_code ignored;
  if (!file.is_open() && std::filesystem::exists(path, ignored)) failFile(path, "cannot be read", errno);
  const auto next = [&] {
    const bool found = static_cast<bool>(std::getline(file, row));
    if (file.bad()) failFile(path, "cannot be read", errno); // the rows so far must not be taken for all
    return found;
  };
  if (!next()) return kept;
  kept.others = row != header;
  if (kept.others) return kept;
  const std::size_t columns = cellsOf(header).size();
  while (next() && !file.eof()) {
    const std::vector<std::string> cells = cellsOf(row);
    const bool whole = cells.size() == columns;
    kept.others = kept.others || !whole;
    if (!whole || std::strtoll(cells[step_column].c_str(), nullptr, 10) > run_step) continue;
    kept.text += row + '\n';
    kept.last_time = std::max(kept.last_time, std::strtod(cells[0].c_str(), nullptr));
  }
  return kept;
}

} // namespace

TableFile::TableFile(std::string path, const std::string& header, std::size_t step_column,
                     std::int64_t run_step)
    : _path(std::move(path)) {
  const KeptRows kept = rowsUpTo(_path, header, step_column, run_step);
  _last_time = kept.last_time;
  if (kept.others)
    Log::warning(_path + ": has rows that this program does not write, and was renamed to " +
                 setAside(_path));
  OutputFile renewed(_path); // the rows that are kept are on the disk at every moment
  renewed.write(header + ('\n' + kept.text));
  renewed.commit();
  _file = open(_path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (_file < 0) throw UserError(_path + ": cannot be written: " + std::strerror(errno));
}

TableFile::~TableFile() {
  close(_file);
}

bool TableFile::writeWaiting() {
  while (!_waiting.empty()) {
    const ssize_t written = write(_file, _waiting.data(), _waiting.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    _waiting.erase(0, written);
  }
  return true;
}

void TableFile::append(const std::string& rows) {
  _waiting += rows;
  if (writeWaiting() || _warned) return;
  Log::warning(_path + ": cannot be written: " + std::strerror(errno) +
               "; its rows are kept in memory until writing succeeds");
  _warned = true;
}

void TableFile::flush() {
  if (!writeWaiting()) throw UserError(_path + ": cannot be written: " + std::strerror(errno));
  if (_lost || leadsTo(_path, _file)) return;
  _lost = true;
  Log::warning(_path + ": was removed or replaced during the run; its rows are lost");
}

} // namespace partita
