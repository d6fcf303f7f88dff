#include "partita/train/monitor.hpp"

#include "partita/config/text.hpp"
#include "partita/core/log.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/evaluation.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

std::string percent(double fraction) {
  return formatted("%.1f %%", 100.0 * fraction);
}

/// Of each stage by itself. Without exits the last one is the joined network.
const std::vector<double>& accuracyAlone(const EvaluationReport& report) {
  return report.stage_alone.empty() ? report.stage_accuracy : report.stage_alone;
}

} // namespace

Monitor::Monitor(const RunConfig& config, const Partition& partition, const Grid& grid, Mailbox& mailbox,
                 const std::string& history, const std::string& workers, std::int64_t classes,
                 const RunLength& length, const Start& start)
    : _config(config), _partition(partition), _grid(grid), _mailbox(mailbox),
      _workers(grid.world().rank() == 0 ? workers : "", start.kept_rows), _classes(classes), _length(length),
      _heard(grid.world().size()), _elapsed_before(start.elapsed), _latest(partition.stages.size() + 1),
      _hook([this] { pump(); }) {
  const Position& from = start.position;
  const bool recovers = from.phase == RunPhase::recovery;
  for (int stage = 0; stage < grid.plan().stages; ++stage) {
    const bool done = recovers || stage < from.stage, under_way = length.turns == 1 || stage == from.stage;
    _latest[stage + 1].step = done ? length.steps : under_way ? from.step : 0;
  }
  if (recovers || wholeNetwork()) _latest[0].step = from.step;
  _share_before = shareDone();
  if (grid.world().rank() != 0) return;
  if (!history.empty()) {
    _history = std::make_unique<HistoryFile>(history, start.kept_rows);
    _elapsed_before = std::max(_elapsed_before, _history->lastTime());
  }
}

double Monitor::seconds() const {
  return _elapsed_before + secondsSince(_start);
}

void Monitor::onStep(const StepReport& report) {
  if (_grid.world().rank() == 0) {
    take(report);
    pump();
    return;
  }
  _mailbox.send(0, Tag::report, report);
  ++_sent;
}

bool Monitor::hasHeard(const std::vector<double>& reports) const {
  for (std::size_t rank = 1; rank < reports.size(); ++rank)
    if (static_cast<double>(_heard[rank]) < reports[rank]) return false;
  return true;
}

void Monitor::pump() {
  _mailbox.poll();
  while (const auto message = _mailbox.take(Tag::report)) {
    ++_heard[message->from];
    take(message->as<StepReport>());
  }
}

void Monitor::flushHistory() {
  if (_history != nullptr) _history->flush();
  _workers.flush();
}

void Monitor::synchroniseHistory() {
  if (_history != nullptr) _history->synchronise();
  _workers.synchronise();
}

template <class Report>
Report Monitor::placedInRun(Report report) const {
  if (!recovering(report.stage)) return report;
  report.step += _length.steps;
  report.epoch += (_length.steps + _length.per_epoch - 1) / _length.per_epoch;
  return report;
}

bool Monitor::wholeNetwork() const {
  return planOf(_config.strategy).gradientsCross() && _partition.stages.size() > 1;
}

bool Monitor::recovering(std::int64_t stage) const {
  return stage == 0 && _length.recovery_steps > 0;
}

bool Monitor::trainsTogether(const StepReport& report) const {
  return _length.turns == 1 && report.stage != 0;
}

void Monitor::take(const StepReport& report) {
  _latest[report.stage] = report;
  if (_history != nullptr) _history->add(seconds(), placedInRun(report));
  if (!trainsTogether(report)) return show({report});
  // Stages that train together report on the same steps: they get one line, when the slowest has reported.
  std::vector<StepReport>& of_step = _waiting[report.step];
  of_step.push_back(report);
  if (of_step.size() + 1 < _latest.size()) return;
  std::sort(of_step.begin(), of_step.end(),
            [](const StepReport& a, const StepReport& b) { return a.stage < b.stage; });
  show(of_step);
  _waiting.erase(report.step);
}

double Monitor::shareDone() const {
  double total = _partition.joint.flops * static_cast<double>(_length.recovery_steps);
  double done = _partition.joint.flops * static_cast<double>(_latest[0].step);
  if (wholeNetwork())
    return std::min(1.0, static_cast<double>(_latest[0].step) / static_cast<double>(_length.steps));
  for (std::size_t stage = 1; stage < _latest.size(); ++stage) {
    total += _partition.local[stage - 1].flops * static_cast<double>(_length.steps);
    done += _partition.local[stage - 1].flops * static_cast<double>(_latest[stage].step);
  }
  return std::min(1.0, done / total);
}

void Monitor::show(const std::vector<StepReport>& stages) {
  const StepReport& report = stages.front();
  const bool together = trainsTogether(report);
  double flops = 0.0, samples = report.samples_per_second;
  std::string losses;
  for (const StepReport& stage : stages) {
    losses += std::isnan(stage.loss) ? " -" : formatted(" %.4f", stage.loss);
    flops += stage.flops_per_second;
    samples = std::min(samples, stage.samples_per_second);
  }
  std::string who;
  if (recovering(report.stage)) who = "recovery ";
  if (report.stage > 0 && !together) who = "stage " + std::to_string(report.stage) + " ";
  const std::int64_t steps = recovering(report.stage) ? _length.recovery_steps : _length.steps;
  const double share = shareDone(), since = share - _share_before;
  const double left = since > 0.0 ? (seconds() - _elapsed_before) * (1.0 - share) / since : 0.0;
  Log::progress(formatted("[%3.0f %%] ", 100.0 * share) + who + "step " + std::to_string(report.step) + "/" +
                std::to_string(steps) + "  loss" + losses + "  " + formatCount(samples) + " samples/s  " +
                formatFlops(flops) + "  ETA " + formatSeconds(left) + _workers.line());
}

void Monitor::onEvaluation(const EvaluationReport& report) {
  if (_grid.world().rank() != 0) return;
  pump();
  if (_history != nullptr) _history->add(seconds(), placedInRun(report));
  std::string line = recovering(report.stage) ? "recovery epoch " : "epoch ";
  line += std::to_string(report.epoch) + ": accuracy";
  for (std::size_t s = 0; s < report.stage_accuracy.size(); ++s) {
    const bool joined = report.joined && s + 1 == report.stage_accuracy.size();
    line += (s > 0 ? "," : "") + std::string(" ") + (joined ? "joined" : "stage " + std::to_string(s + 1)) +
            " " + percent(report.stage_accuracy[s]);
  }
  for (std::size_t s = 0; s < report.stage_alone.size(); ++s)
    line += (s > 0 ? ", " : "; alone ") + percent(report.stage_alone[s]);
  if (const double value = perplexityOf(_config, _partition, report.stage_loss.back());
      report.joined && value > 0.0)
    line += formatted(", perplexity %.4f", value);
  Log::info(line);
  warnOfStagesThatDoNotLearn(report);
  warnOfStagesThatForget(report);
}

void Monitor::warnOfStagesThatDoNotLearn(const EvaluationReport& report) {
  const std::string advice = planOf(_config.strategy).adviceFor(_config.strategy).not_learning;
  if (advice.empty() || report.step < _length.per_epoch) return; // too early to judge
  const double chance = 1.0 / static_cast<double>(_classes),
               enough = std::min(chance + 0.1 * (1.0 - chance), 4.0 * chance);
  const std::vector<double>& alone = accuracyAlone(report);
  for (std::size_t s = 0; s + 1 < _partition.stages.size() && s < alone.size(); ++s) {
    if (alone[s] > enough) continue;
    if (_warned.insert(s).second) {
      Log::warning("stage " + std::to_string(s + 1) +
                   " does not learn: decoded with its own labels, its accuracy is " + percent(alone[s]) +
                   ", chance is " + percent(chance) + "; " + advice);
    }
    return; // the stages after it have nothing to learn from
  }
}

/// At the end of the run: does the whole network make twice as many errors as one of its stages?
void Monitor::warnOfStagesThatForget(const EvaluationReport& report) const {
  constexpr double noticeable = 0.03; // of all samples: a small test set has only few
  const std::int64_t last = _length.recovery_steps > 0 ? _length.recovery_steps : _length.steps;
  const bool ends = report.step == last && recovering(report.stage) == (_length.recovery_steps > 0);
  const std::string advice = planOf(_config.strategy).adviceFor(_config.strategy).forgetting;
  if (!ends || _length.steps < _length.per_epoch || !report.joined || advice.empty()) return;
  const std::vector<double>& alone = accuracyAlone(report);
  const auto best = std::max_element(alone.begin(), alone.end());
  const double joined = report.stage_accuracy.back();
  if (*best - joined < noticeable || 1.0 - joined < 2.0 * (1.0 - *best)) return;
  Log::warning("the joined network has an accuracy of " + percent(joined) + ", but stage " +
               std::to_string(best - alone.begin() + 1) + " alone already has " + percent(*best) + ": " +
               advice);
}

} // namespace partita
