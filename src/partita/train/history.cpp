#include "partita/train/history.hpp"

#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/io/output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>
#include <vector>

namespace partita {

namespace {

std::string stageName(std::int64_t stage) {
  return stage == 0 ? "joined" : std::to_string(stage);
}

const char* const header = "time_s,event,stage,epoch,step,run_step,loss,learning_rate,samples_per_second,"
                           "grad_norm,train_accuracy,accuracy";
constexpr std::size_t run_step_column = 5, columns = 12;

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
};

/// The complete rows up to a step; a row that a killed run has left half written is dropped.
KeptRows rowsUpTo(const std::string& path, std::int64_t run_step) {
  KeptRows kept;
  std::ifstream file(path);
  std::string row;
  if (run_step == 0 || !std::getline(file, row) || row != header) return kept;
  while (std::getline(file, row) && !file.eof()) {
    const std::vector<std::string> cells = cellsOf(row);
    if (cells.size() != columns || std::strtoll(cells[run_step_column].c_str(), nullptr, 10) > run_step)
      continue;
    kept.text += row + '\n';
    kept.last_time = std::max(kept.last_time, std::strtod(cells[0].c_str(), nullptr));
  }
  return kept;
}

} // namespace

HistoryFile::HistoryFile(const std::string& path, std::int64_t run_step) : _path(path) {
  const KeptRows kept = rowsUpTo(path, run_step);
  _last_time = kept.last_time;
  OutputFile renewed(path); // the rows that are kept are on the disk at every moment
  renewed.write(header + ('\n' + kept.text));
  renewed.commit();
  _file = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (_file < 0) throw UserError(path + ": cannot be written: " + std::strerror(errno));
}

HistoryFile::~HistoryFile() {
  close(_file);
}

bool HistoryFile::writeWaiting() {
  while (!_waiting.empty()) {
    const ssize_t written = write(_file, _waiting.data(), _waiting.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    _waiting.erase(0, written);
  }
  return true;
}

void HistoryFile::append(const std::ostringstream& rows) {
  _waiting += rows.str();
  if (writeWaiting() || _warned) return;
  Log::warning(_path + ": cannot be written: " + std::strerror(errno) +
               "; rows are kept in memory until it can be");
  _warned = true;
}

void HistoryFile::flush() {
  if (!writeWaiting()) throw UserError(_path + ": cannot be written: " + std::strerror(errno));
}

void HistoryFile::add(double seconds, const StepReport& report) {
  std::ostringstream rows;
  rows.precision(7);
  rows << seconds << ",step," << stageName(report.stage) << ',' << report.epoch << ',' << report.step << ','
       << report.run_step << ',' << report.loss << ',' << report.learning_rate << ','
       << report.samples_per_second << ',' << report.gradient_norm << ',';
  if (report.accuracy >= 0.0) rows << 100.0 * report.accuracy;
  rows << ",\n";
  append(rows);
}

void HistoryFile::add(double seconds, const EvaluationReport& report) {
  std::ostringstream rows;
  rows.precision(7);
  for (std::size_t s = 0; s < report.stage_accuracy.size(); ++s) {
    const bool joined = report.joined && s + 1 == report.stage_accuracy.size();
    rows << seconds << ",evaluation," << (joined ? "joined" : std::to_string(s + 1)) << ',' << report.epoch
         << ',' << report.step << ',' << report.run_step << ',' << report.stage_loss[s] << ",,,,,"
         << 100.0 * report.stage_accuracy[s] << '\n';
  }
  append(rows);
}

} // namespace partita
