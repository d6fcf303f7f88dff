#include "partita/config/text.hpp"
#include "partita/plan/hogbatch/forecast.hpp"

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

} // namespace

std::vector<std::string> forecastLines(const WorkerMix& mix, const HogbatchForecast& forecast) {
  const Course& course = forecast.course;
  const MeasuredUse use = expectedUse(forecast);
  std::vector<std::string> lines{
      tableLine({"worker", "batch", "updates", "examples", "examples/s", "busy", "staleness, max"})};
  for (std::size_t i = 0; i < mix.workers.size(); ++i)
    lines.push_back(workerLine(mix.workers[i], course, course.workers[i], use.shares[i]));
  lines.push_back("predicted " + formatted("%.4g", use.examples_per_second) + " examples/s, " +
                  formatted("%.4g", use.epoch_seconds) + " s per epoch, staleness " +
                  formatted("%.1f", use.staleness_mean));
  if (mix.rules.rule != WorkerRule::synchronous)
    lines.back() += "; an epoch takes " + formatted("%.2f", forecast.price_of_balance) +
                    " times as long as with the first batches";
  for (const WorkerUse way : {WorkerUse::asynchronous, WorkerUse::synchronous, WorkerUse::alone})
    lines.push_back(wayLine(mix, forecast, way));
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
