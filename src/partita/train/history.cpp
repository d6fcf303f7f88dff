#include "partita/train/history.hpp"

#include "partita/config/user_error.hpp"

namespace partita {

namespace {

std::string stageName(std::int64_t stage) {
  return stage == 0 ? "joined" : std::to_string(stage);
}

} // namespace

HistoryFile::HistoryFile(const std::string& path) : _file(path) {
  if (!_file) throw UserError("cannot write '" + path + "'");
  _file << "time_s,event,stage,epoch,step,loss,learning_rate,samples_per_second,grad_norm,train_accuracy,"
           "accuracy\n";
  _file.precision(7);
}

void HistoryFile::add(double seconds, const StepReport& report) {
  _file << seconds << ",step," << stageName(report.stage) << ',' << report.epoch << ',' << report.step << ','
        << report.loss << ',' << report.learning_rate << ',' << report.samples_per_second << ','
        << report.gradient_norm << ',';
  if (report.accuracy >= 0.0) _file << 100.0 * report.accuracy;
  _file << ",\n" << std::flush;
}

void HistoryFile::add(double seconds, const EvaluationReport& report) {
  for (std::size_t s = 0; s < report.stage_accuracy.size(); ++s) {
    const bool joined = report.joined && s + 1 == report.stage_accuracy.size();
    _file << seconds << ",evaluation," << (joined ? "joined" : std::to_string(s + 1)) << ',' << report.epoch
          << ',' << report.step << ',' << report.stage_loss[s] << ",,,,," << 100.0 * report.stage_accuracy[s]
          << '\n';
  }
  _file << std::flush;
}

} // namespace partita
