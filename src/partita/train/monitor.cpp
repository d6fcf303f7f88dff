#include "partita/train/monitor.hpp"

#include "partita/comm/wait.hpp"
#include "partita/core/log.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <type_traits>

namespace partita {

namespace {

constexpr int report_tag = 11, last_tag = 12;
static_assert(std::is_trivially_copyable<StepReport>::value, "reports travel as bytes");

std::string percent(double fraction) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100.0 * fraction);
  return text;
}

} // namespace

Monitor::Monitor(const RunConfig& config, const Partition& partition, const Grid& grid,
                 const std::string& history, std::int64_t classes, const StepCount& count)
    : _config(config), _partition(partition), _grid(grid), _classes(classes), _count(count),
      _latest(partition.stages.size() + 1) {
  if (grid.world().rank() != 0) return;
  if (!history.empty()) _history = std::make_unique<HistoryFile>(history);
  setIdleHook([this] { pump(); });
}

Monitor::~Monitor() {
  setIdleHook({});
}

double Monitor::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - _start).count();
}

void Monitor::onStep(const StepReport& report) {
  if (_grid.world().rank() == 0) {
    take(report);
    pump();
    return;
  }
  tell(report, report_tag);
}

void Monitor::tell(const StepReport& report, int tag) const {
  Request request;
  PARTITA_MPI(MPI_Isend(&report, sizeof report, MPI_BYTE, 0, tag, _grid.control().get(),
                        request.start({WaitedFor::Kind::taker, "report", _grid.control().worldRank(0), 0})));
  request.wait();
}

void Monitor::pump() {
  for (;;) {
    int waiting = 0;
    MPI_Status status;
    PARTITA_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, _grid.control().get(), &waiting, &status));
    if (waiting == 0) return;
    StepReport report;
    PARTITA_MPI(MPI_Recv(&report, sizeof report, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
                         _grid.control().get(), MPI_STATUS_IGNORE));
    if (status.MPI_TAG == report_tag) take(report);
    if (status.MPI_TAG == last_tag) ++_silent_ranks;
  }
}

void Monitor::finish() {
  const Communicator& control = _grid.control();
  if (control.rank() != 0) {
    tell({}, last_tag);
    return;
  }
  Waiting waiting({WaitedFor::Kind::all, "last report"});
  for (pump(); _silent_ranks + 1 < control.size(); pump()) waiting.pause();
  waiting.over();
}

template <class Report>
Report Monitor::placedInRun(Report report) const {
  if (report.stage != 0) return report;
  report.step += _count.steps;
  report.epoch += (_count.steps + _count.per_epoch - 1) / _count.per_epoch;
  return report;
}

bool Monitor::trainsTogether(const StepReport& report) const {
  return _config.strategy.input != StageInput::frozen && report.stage != 0;
}

void Monitor::take(const StepReport& report) {
  _latest[static_cast<std::size_t>(report.stage)] = report;
  if (_history != nullptr) _history->add(seconds(), placedInRun(report));
  if (!std::isfinite(report.loss) && _not_finite.insert(report.stage).second) {
    Log::warning((report.stage == 0 ? "recovery" : "stage " + std::to_string(report.stage)) +
                 ": the loss is not finite at step " + std::to_string(report.step) +
                 " (a smaller optimiser/learning_rate, or optimiser/clip_norm)");
  }
  // Stages that train together tell the same story at once: one line for them, when the slowest has reported.
  const auto behind = [&](const StepReport& latest) { return latest.step < report.step; };
  if (!trainsTogether(report) || std::none_of(_latest.begin() + 1, _latest.end(), behind)) show(report);
}

double Monitor::shareDone() const {
  const double recovery_steps = static_cast<double>(_config.strategy.recovery_epochs * _count.per_epoch);
  double total = _partition.joint_flops * recovery_steps;
  double done = _partition.joint_flops * static_cast<double>(_latest[0].step);
  for (std::size_t stage = 1; stage < _latest.size(); ++stage) {
    total += _partition.local_flops[stage - 1] * static_cast<double>(_count.steps);
    done += _partition.local_flops[stage - 1] * static_cast<double>(_latest[stage].step);
  }
  return std::min(1.0, done / total);
}

void Monitor::show(const StepReport& report) {
  const bool together = trainsTogether(report);
  const std::int64_t first = together ? 1 : report.stage,
                     last = together ? _grid.plan().stages : report.stage;
  double flops = 0.0, samples = report.samples_per_second;
  std::string losses;
  for (std::int64_t stage = first; stage <= last; ++stage) {
    const StepReport& latest = _latest[static_cast<std::size_t>(stage)];
    char loss[32];
    std::snprintf(loss, sizeof loss, " %.4f", latest.loss);
    losses += loss;
    flops += latest.flops_per_second;
    samples = std::min(samples, latest.samples_per_second);
  }
  std::string who;
  if (report.stage == 0) who = "recovery ";
  if (report.stage > 0 && !together) who = "stage " + std::to_string(report.stage) + " ";
  const std::int64_t steps =
      report.stage == 0 ? _config.strategy.recovery_epochs * _count.per_epoch : _count.steps;
  const double share = shareDone();
  char line[256];
  std::snprintf(line, sizeof line, "[%3.0f %%] %sstep %lld/%lld  loss%s  %s samples/s  %s  ETA %s",
                100.0 * share, who.c_str(), static_cast<long long>(report.step),
                static_cast<long long>(steps), losses.c_str(), formatCount(samples).c_str(),
                formatFlops(flops).c_str(),
                formatSeconds(share > 0.0 ? seconds() * (1.0 - share) / share : 0.0).c_str());
  Log::progress(line);
}

void Monitor::onEvaluation(const EvaluationReport& report) {
  if (_grid.world().rank() != 0) return;
  pump();
  if (_history != nullptr) _history->add(seconds(), placedInRun(report));
  std::string line = report.stage == 0 ? "recovery epoch " : "epoch ";
  line += std::to_string(report.epoch) + ": accuracy";
  for (std::size_t s = 0; s < report.stage_accuracy.size(); ++s) {
    const bool joined = report.joined && s + 1 == report.stage_accuracy.size();
    line += (s > 0 ? "," : "") + std::string(" ") + (joined ? "joined" : "stage " + std::to_string(s + 1)) +
            " " + percent(report.stage_accuracy[s]);
  }
  Log::info(line);
  warnOfStagesThatDoNotLearn(report);
}

void Monitor::warnOfStagesThatDoNotLearn(const EvaluationReport& report) {
  if (report.step < _count.per_epoch || !_not_finite.empty()) return; // too early to tell, or told already
  const double chance = 1.0 / static_cast<double>(_classes);
  const bool cut_start = _config.strategy.initialisation == CutInitialisation::cut;
  for (std::size_t s = 0; s + 1 < _partition.stages.size() && s < report.stage_accuracy.size(); ++s) {
    if (report.stage_accuracy[s] > chance + 0.1 * (1.0 - chance)) continue;
    if (_warned.insert(s).second) {
      Log::warning(
          "stage " + std::to_string(s + 1) + " does not learn: decoded by its own labels it is right in " +
          percent(report.stage_accuracy[s]) + ", chance is " + percent(chance) +
          (cut_start ? "; try more layers in it, a larger strategy/kappa or another learning rate"
                     : "; its labels spread too little for its initial outputs (strategy/initialisation = "
                       "\"cut\", or a larger strategy/kappa)"));
    }
    return; // what stands behind it gets nothing to learn from
  }
}

} // namespace partita
