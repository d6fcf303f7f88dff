#include "partita/config/text.hpp"
#include "partita/plan/hogbatch/forecast.hpp"

#include <algorithm>
#include <array>

namespace partita {

namespace {

std::string tableLine(const std::array<std::string, 7>& columns) {
  return formatted("  %-20s %16s %9s %9s %12s %6s  %s", columns[0].c_str(), columns[1].c_str(),
                   columns[2].c_str(), columns[3].c_str(), columns[4].c_str(), columns[5].c_str(),
                   columns[6].c_str());
}

std::string workerLine(const WorkerSpeed& worker, const Course& course, const WorkerCourse& own,
                       double share) {
  std::string batches = std::to_string(own.batch_first);
  if (own.batch_last != own.batch_first) batches += " to " + std::to_string(own.batch_last);
  const auto examples = static_cast<double>(own.examples);
  return tableLine({worker.name, batches, formatted("%.3f", share),
                    formatted("%.3f", examples / static_cast<double>(course.examples)),
                    formatted("%.4g", examples / course.seconds),
                    formatted("%.2f", own.busy / course.seconds),
                    formatted("%.1f", own.stalenessMean()) + ", " + std::to_string(own.staleness_max)});
}

std::string batchList(const std::vector<double>& batches) {
  std::vector<std::int64_t> whole;
  whole.reserve(batches.size());
  for (const double batch : batches) whole.push_back(static_cast<std::int64_t>(batch));
  return joined(whole, ", ");
}

std::string shareList(const MeasuredUse& use) {
  std::vector<std::string> shares;
  shares.reserve(use.shares.size());
  for (const double share : use.shares) shares.push_back(formatted("%.3f", share));
  return joined(shares, ", ");
}

/// "rank 2 alone, batches of 64".
std::string wayText(const WorkerMix& mix, const HogbatchForecast& forecast, WorkerUse use) {
  const std::vector<double>& batches = forecast.of(use).batches;
  if (use == WorkerUse::synchronous) return "all in step, batches of " + batchList(batches);
  if (use == WorkerUse::asynchronous) return "asynchronous, batches of " + batchList(batches);
  std::vector<std::string> names;
  std::vector<double> own;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (batches[i] == 0.0) continue;
    names.push_back(mix.workers[i].name);
    own.push_back(batches[i]);
  }
  return joined(names, " and ") + " alone, batches of " + batchList(own);
}

std::string wayLine(const WorkerMix& mix, const HogbatchForecast& forecast, WorkerUse use) {
  const double own = forecast.course.progressPerSecond();
  return "  " + wayText(mix, forecast, use) + ": " + formatted("%.4g", forecast.of(use).examples_per_second) +
         " examples/s, " + formatted("%.2f", forecast.of(use).progress_per_second / own) +
         " times the progress of this run";
}

/// "with strategy/rule=synchronous training/batch=512, optimiser/learning_rate times 8, without rank 2".
std::string changeLine(const WorkerMix& mix, const UseForecast& way, WorkerUse use) {
  std::vector<std::string> parts, idle;
  if (const auto changes = deckChangesFor(mix, way); !changes.empty()) parts.push_back(joined(changes, " "));
  if (const double rate = rateChangeFor(mix, way); rate != 1.0)
    parts.push_back("optimiser/learning_rate times " + formatted("%.4g", rate));
  for (std::size_t i = 0; i < way.batches.size(); ++i)
    if (way.batches[i] == 0.0) idle.push_back(mix.workers[i].name);
  if (!idle.empty() && !way.own)
    parts.push_back(use == WorkerUse::alone ? "no other worker" : "without " + joined(idle, " and "));
  return parts.empty() ? "    as in this run" : "    with " + joined(parts, ", ");
}

std::int64_t sharedWorkers(const WorkerMix& mix, const UseForecast* of_way) {
  std::int64_t shared = 0;
  for (std::size_t i = 0; i < mix.workers.size(); ++i) {
    const bool works = of_way == nullptr || of_way->batches[i] > 0.0;
    shared += works && mix.groups[mix.workers[i].group].role == WorkerRole::shared ? 1 : 0;
  }
  return shared;
}

/// Rule `synchronous` needs all of these.
void addStepKeys(const WorkerMix& mix, std::vector<std::string>& changes) {
  if (mix.staleness.rule != StalenessRule::none) changes.emplace_back("strategy/staleness=none");
  if (mix.keys.tolerate) changes.emplace_back("strategy/tolerate=false");
  if (mix.keys.merge != ReplicaMerge::delta) changes.emplace_back("strategy/merge=delta");
}

/// Lists and numbers of workers count those that work.
void addWorkerKeys(const WorkerMix& mix, const UseForecast& way, std::vector<std::string>& changes) {
  if (!way.speeds.empty())
    changes.push_back("strategy/speeds=[" + joined(way.speeds, ",") + "]");
  else if (!mix.speeds.empty())
    changes.emplace_back("strategy/speeds=[]");
  std::vector<std::int64_t> slowdown;
  for (std::size_t i = 0; i < std::min(mix.keys.slowdown.size(), way.batches.size()); ++i)
    if (way.batches[i] > 0.0) slowdown.push_back(mix.keys.slowdown[i]);
  if (slowdown != mix.keys.slowdown) changes.push_back("strategy/slowdown=[" + joined(slowdown, ",") + "]");
  const std::int64_t shared = sharedWorkers(mix, &way);
  if (shared != sharedWorkers(mix, nullptr))
    changes.push_back("strategy/shared_workers=" + std::to_string(shared));
}

} // namespace

double rateChangeFor(const WorkerMix& mix, const UseForecast& way) {
  return way.own || !(mix.rate.reference > 0.0) ? 1.0 : static_cast<double>(way.batch) / mix.rate.reference;
}

std::vector<std::string> deckChangesFor(const WorkerMix& mix, const UseForecast& way) {
  std::vector<std::string> changes;
  if (way.own) return changes;
  if (way.rule != mix.rules.rule) changes.push_back("strategy/rule=" + nameOf(way.rule));
  if (way.rule == WorkerRule::synchronous) addStepKeys(mix, changes);
  addWorkerKeys(mix, way, changes);
  constexpr double most_cap = 1e6; // of a deck
  const double rate = rateChangeFor(mix, way);
  if (rate != 1.0) changes.push_back("training/batch=" + std::to_string(way.batch));
  if (rate != 1.0 && mix.rate.cap > 0.0)
    changes.push_back("strategy/rate_cap=" + formatted("%.4g", std::min(mix.rate.cap / rate, most_cap)));
  const std::int64_t batch_shared = mix.keys.batch_shared > 0 ? mix.keys.batch_shared : way.batch;
  if (way.batch_shared > 0 && way.batch_shared != batch_shared)
    changes.push_back("strategy/batch_shared=" + std::to_string(way.batch_shared));
  return changes;
}

std::vector<std::string> forecastLines(const WorkerMix& mix, const HogbatchForecast& forecast) {
  const Course& course = forecast.course;
  const MeasuredUse use = expectedUse(forecast);
  std::vector<std::string> lines{
      tableLine({"worker", "batch", "updates", "examples", "examples/s", "busy", "staleness, max"})};
  for (std::size_t i = 0; i < mix.workers.size(); ++i)
    lines.push_back(workerLine(mix.workers[i], course, course.workers[i], use.shares[i]));
  lines.push_back("this run: predicted " + formatted("%.4g", use.examples_per_second) + " examples/s, " +
                  formatted("%.4g", use.epoch_seconds) + " s per epoch, staleness " +
                  formatted("%.1f", use.staleness_mean));
  if (mix.rules.rule != WorkerRule::synchronous)
    lines.back() += "; an epoch takes " + formatted("%.2f", forecast.price_of_balance) +
                    " times as long as with the first batches";
  lines.emplace_back("ways to use these workers, each with its best batches within the bounds of the deck:");
  for (const WorkerUse way : {WorkerUse::asynchronous, WorkerUse::synchronous, WorkerUse::alone}) {
    lines.push_back(wayLine(mix, forecast, way));
    lines.push_back(changeLine(mix, forecast.of(way), way));
  }
  if (forecast.gain > 1.0)
    lines.push_back("better than this run by " + formatted("%.0f", 100.0 * (forecast.gain - 1.0)) +
                    " %: " + wayText(mix, forecast, forecast.best));
  else
    lines.emplace_back("no other way is better by 5 % or more");
  return lines;
}

std::string comparisonLine(const MeasuredUse& predicted, const MeasuredUse& measured) {
  return "predicted " + formatted("%.4g", predicted.examples_per_second) + " examples/s, measured " +
         formatted("%.4g", measured.examples_per_second) + " (" +
         formatted("%+.1f", 100.0 * (predicted.examples_per_second / measured.examples_per_second - 1.0)) +
         " %): shares of updates " + shareList(predicted) + " and " + shareList(measured) + ", staleness " +
         formatted("%.1f", predicted.staleness_mean) + " and " + formatted("%.1f", measured.staleness_mean);
}

} // namespace partita
