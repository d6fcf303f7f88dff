#include "partita/strategy/hogbatch/progress.hpp"

#include <algorithm>

namespace partita {

SampleProgress::SampleProgress(const RunConfig& config, const RunLength& length, std::int64_t samples)
    : _samples(samples), _batch(config.training.batch), _per_epoch(length.per_epoch), _steps(length.steps) {}

std::int64_t SampleProgress::end(std::int64_t epoch) const {
  const std::int64_t whole = _steps / _per_epoch, rest = _steps % _per_epoch;
  if (epoch < whole) return _samples;
  return epoch == whole ? rest * _batch : 0;
}

std::int64_t SampleProgress::step(std::int64_t epoch, std::int64_t done) const {
  if (done >= _samples) return (epoch + 1) * _per_epoch;
  return epoch * _per_epoch + std::min(done / _batch, _per_epoch - 1);
}

std::pair<std::int64_t, std::int64_t> SampleProgress::place(std::int64_t step) const {
  return {step / _per_epoch, step % _per_epoch * _batch};
}

CourseReport::CourseReport(const RunContext& context, const HogbatchState& state)
    : _context(context), _state(state), _every(logInterval(context.config, context.length.steps)) {}

double CourseReport::worked() const {
  return _worked + sinceBegun();
}

/// Processor time of this process while it worked, in s.
double CourseReport::processorTime() const {
  if (_rests) return _processor;
  return _processor + static_cast<double>(std::clock() - _processor_begun) / CLOCKS_PER_SEC;
}

double CourseReport::rest() {
  const double seconds = sinceBegun();
  _processor = processorTime();
  _worked += seconds;
  _rests = true;
  return _state.seconds + seconds;
}

void CourseReport::resume(std::int64_t step) {
  _written = std::max(_written, step);
  _since = _begun = Clock::now();
  _rests = false;
  _processor_begun = std::clock();
  _samples = 0.0;
}

bool CourseReport::due(std::int64_t step, bool last) const {
  if (step / _every == _written / _every && !last) return false;
  return step != _written && _state.rows > 0.0;
}

/// Samples per second. Results arrive in bursts, so the mean is over at least 0.1 s.
double CourseReport::speed() {
  constexpr double enough = 0.1; // s
  const double seconds = secondsSince(_since);
  if (seconds < enough && _speed > 0.0) return _speed;
  _speed = _samples / std::max(seconds, 1e-6);
  _since = Clock::now();
  _samples = 0.0;
  return _speed;
}

void CourseReport::writeStep(std::int64_t step, double learning_rate) {
  StepReport report;
  report.stage = 1;
  report.epoch = (step - 1) / _context.length.per_epoch + 1;
  report.step = report.run_step = step;
  report.loss = _state.loss / _state.rows;
  report.accuracy =
      _context.config.training.loss == LossKind::cross_entropy ? _state.correct / _state.rows : -1.0;
  report.learning_rate = learning_rate;
  report.samples_per_second = speed();
  report.flops_per_second = report.samples_per_second * _context.partition.joint.flops;
  report.gradient_norm = -1.0;
  writeWorkers(step);
  _context.observer.onStep(report);
  _written = step;
}

std::vector<WorkerCounts> CourseReport::named() const {
  std::vector<WorkerCounts> workers = _state.workers;
  for (WorkerCounts& worker : workers)
    worker.rank = _context.grid.world().worldRank(static_cast<int>(worker.rank));
  return workers;
}

/// Lost workers keep their place among the ranks of the job.
void CourseReport::writeWorkers(std::int64_t step) const {
  const double seconds = secondsOfRun();
  std::vector<WorkerCounts> workers = named();
  if (_context.meeting != nullptr)
    workers.insert(workers.end(), _context.meeting->lost.begin(), _context.meeting->lost.end());
  std::sort(workers.begin(), workers.end(),
            [](const WorkerCounts& a, const WorkerCounts& b) { return a.rank < b.rank; });
  _context.observer.onWorkers(
      {step, seconds, processorTime() / std::max(worked(), 1e-6), workers, _state.reached});
}

} // namespace partita
