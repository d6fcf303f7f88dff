#include "partita/train/table_file.hpp"

#include "partita/config/files.hpp"
#include "partita/core/log.hpp"
#include "partita/train/set_aside.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
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

/// Could this be a row of the program? Damage and editors leave other characters.
bool isRow(const std::vector<std::string>& cells, std::size_t columns, std::size_t step_column) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_printable = [](const std::string& cell) {
    return std::all_of(cell.begin(), cell.end(), [](char c) { return c >= ' ' && c <= '~'; });
  };
  if (cells.size() != columns) return false;
  const std::string& step = cells[step_column];
  return !step.empty() && std::all_of(step.begin(), step.end(), is_digit) &&
         std::all_of(cells.begin(), cells.end(), is_printable);
}

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
    const bool own = isRow(cells, columns, step_column);
    kept.others = kept.others || !own;
    if (!own || std::strtoll(cells[step_column].c_str(), nullptr, 10) > run_step) continue;
    kept.text += row + '\n';
    kept.last_time = std::max(kept.last_time, std::strtod(cells[0].c_str(), nullptr));
  }
  return kept;
}

/// What the file is to begin with.
std::string beginningOf(const std::string& path, const std::string& header, const KeptRows& kept) {
  if (kept.others)
    Log::warning(path + ": has rows that this program does not write, and was renamed to " + setAside(path));
  return header + ('\n' + kept.text);
}

} // namespace

TableFile::TableFile(const std::string& path, const std::string& header, std::size_t step_column,
                     std::int64_t run_step)
    : TableFile(path, header, rowsUpTo(path, header, step_column, run_step)) {}

TableFile::TableFile(const std::string& path, const std::string& header, const KeptRows& kept)
    : _last_time(kept.last_time), _file(path, beginningOf(path, header, kept)) {}

} // namespace partita
