#include "partita/train/table_file.hpp"

#include "partita/config/files.hpp"
#include "partita/core/log.hpp"
#include "partita/train/set_aside.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
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

/// The order in which the program writes rows. Who sorts a table or joins two of them loses it.
class RowOrder {
 public:
  /// Can a row with this value follow the rows before? None of them is written twice.
  bool takes(const std::string& row, double value) {
    if (!std::isfinite(value) || value < _last) return false;
    if (value > _last) _rows.clear();
    _last = value;
    return _rows.insert(row).second;
  }

 private:
  double _last = 0.0;
  std::set<std::string> _rows; ///< with the last value
};

/// The complete rows up to a step; a row that a killed run has left half written is dropped.
KeptRows rowsUpTo(const std::string& path, const std::string& header, TableColumns columns,
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
  const std::size_t width = cellsOf(header).size();
  RowOrder order;
  while (next() && !file.eof()) {
    const std::vector<std::string> cells = cellsOf(row);
    const bool own = isRow(cells, width, columns.step) &&
                     order.takes(row, std::strtod(cells[columns.order].c_str(), nullptr));
    kept.others = kept.others || !own;
    if (!own || std::strtoll(cells[columns.step].c_str(), nullptr, 10) > run_step) continue;
    kept.text += row + '\n';
    kept.last_time = std::max(kept.last_time, std::strtod(cells[0].c_str(), nullptr));
  }
  return kept;
}

/// What the file is to begin with.
std::string beginningOf(const std::string& path, const std::string& header, const KeptRows& kept) {
  if (kept.others)
    Log::warning(path +
                 ": has rows that this program does not write, or not in this order, and was renamed to " +
                 setAside(path));
  return header + ('\n' + kept.text);
}

} // namespace

TableFile::TableFile(const std::string& path, const std::string& header, TableColumns columns,
                     std::int64_t run_step)
    : TableFile(path, header, rowsUpTo(path, header, columns, run_step)) {}

TableFile::TableFile(const std::string& path, const std::string& header, const KeptRows& kept)
    : _last_time(kept.last_time), _file(path, beginningOf(path, header, kept)) {}

} // namespace partita
