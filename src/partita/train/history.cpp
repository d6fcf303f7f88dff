#include "partita/train/history.hpp"

#include <cmath>
#include <sstream>

namespace partita {

namespace {

std::string stageName(std::int64_t stage) {
  return stage == 0 ? "joined" : std::to_string(stage);
}

const char* const header = "time_s,event,stage,epoch,step,run_step,loss,learning_rate,samples_per_second,"
                           "grad_norm,train_accuracy,accuracy,accuracy_alone";
constexpr TableColumns history_columns{5, 0}; // stages that train at once report their steps in any order

} // namespace

HistoryFile::HistoryFile(const std::string& path, std::int64_t run_step)
    : _table(path, header, history_columns, run_step) {}

void HistoryFile::add(double seconds, const StepReport& report) {
  std::ostringstream rows;
  rows.precision(7);
  rows << seconds << ",step," << stageName(report.stage) << ',' << report.epoch << ',' << report.step << ','
       << report.run_step << ',';
  if (!std::isnan(report.loss)) rows << report.loss; // otherwise all steps were skipped
  rows << ',' << report.learning_rate << ',' << report.samples_per_second << ',';
  if (report.gradient_norm >= 0.0) rows << report.gradient_norm;
  rows << ',';
  if (report.accuracy >= 0.0) rows << 100.0 * report.accuracy;
  rows << ",,\n";
  _table.append(rows.str());
}

void HistoryFile::add(double seconds, const EvaluationReport& report) {
  std::ostringstream rows;
  rows.precision(7);
  for (std::size_t s = 0; s < report.stage_accuracy.size(); ++s) {
    const bool joined = report.joined && s + 1 == report.stage_accuracy.size();
    rows << seconds << ",evaluation," << (joined ? "joined" : std::to_string(s + 1)) << ',' << report.epoch
         << ',' << report.step << ',' << report.run_step << ',' << report.stage_loss[s] << ",,,,,"
         << 100.0 * report.stage_accuracy[s] << ',';
    if (!report.stage_alone.empty()) rows << 100.0 * report.stage_alone[s];
    rows << '\n';
  }
  _table.append(rows.str());
}

} // namespace partita
