#include "partita/train/history.hpp"

#include "partita/config/user_error.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
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

/// The whole rows up to a step; what a killed run has left half written is none.
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

HistoryFile::HistoryFile(const std::string& path, std::int64_t run_step) {
  const KeptRows kept = rowsUpTo(path, run_step);
  _last_time = kept.last_time;
  const std::string renewed = path + ".new"; // never a moment without the rows that are kept
  std::error_code failed;
  if (!(std::ofstream(renewed) << header << '\n' << kept.text << std::flush))
    throw UserError("cannot write '" + path + "'");
  std::filesystem::rename(renewed, path, failed);
  _file.open(path, std::ios::app);
  if (failed || !_file) throw UserError("cannot write '" + path + "'");
  _file.precision(7);
}

void HistoryFile::add(double seconds, const StepReport& report) {
  _file << seconds << ",step," << stageName(report.stage) << ',' << report.epoch << ',' << report.step << ','
        << report.run_step << ',' << report.loss << ',' << report.learning_rate << ','
        << report.samples_per_second << ',' << report.gradient_norm << ',';
  if (report.accuracy >= 0.0) _file << 100.0 * report.accuracy;
  _file << ",\n" << std::flush;
}

void HistoryFile::add(double seconds, const EvaluationReport& report) {
  for (std::size_t s = 0; s < report.stage_accuracy.size(); ++s) {
    const bool joined = report.joined && s + 1 == report.stage_accuracy.size();
    _file << seconds << ",evaluation," << (joined ? "joined" : std::to_string(s + 1)) << ',' << report.epoch
          << ',' << report.step << ',' << report.run_step << ',' << report.stage_loss[s] << ",,,,,"
          << 100.0 * report.stage_accuracy[s] << '\n';
  }
  _file << std::flush;
}

} // namespace partita
