#include "partita/plan/hogbatch/forecast.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

template <>
const std::vector<std::string>& namesOf<WorkerUse>() {
  static const std::vector<std::string> names{"asynchronous", "synchronous", "alone"};
  return names;
}

const UseForecast& HogbatchForecast::of(WorkerUse use) const {
  if (use == WorkerUse::synchronous) return synchronous;
  return use == WorkerUse::alone ? alone : asynchronous;
}

namespace {

constexpr double finer = 1.02; ///< ratio of successive sizes that are tried

/// Plays epochs, or only the beginning of each if they are long, until sizes have settled.
Course settledCourse(WorkerMix mix) {
  constexpr std::int64_t most_examples = 2000000, enough_batches = 20000, most_epochs = 20;
  mix.examples = std::min(mix.examples, most_examples);
  const Course one = playCourse(mix, 1);
  std::int64_t batches = 1;
  for (const WorkerCourse& worker : one.workers) batches += worker.batches;
  const std::int64_t epochs = std::min(enough_batches / batches + 1, most_epochs);
  return epochs > 1 ? playCourse(mix, epochs) : one;
}

UseForecast useOf(const Course& course) {
  UseForecast use;
  use.examples_per_second = course.examplesPerSecond();
  use.progress_per_second = course.progressPerSecond();
  for (const WorkerCourse& worker : course.workers)
    use.batches.push_back(static_cast<double>(worker.batch_last));
  return use;
}

double largestBatch(const WorkerMix& mix, std::size_t worker) {
  return static_cast<double>(mix.groups[mix.workers[worker].group].upper);
}

/// The workers of each group, in their order.
std::vector<std::vector<std::size_t>> membersOf(const WorkerMix& mix) {
  std::vector<std::vector<std::size_t>> members(mix.groups.size());
  for (std::size_t i = 0; i < mix.workers.size(); ++i) members[mix.workers[i].group].push_back(i);
  return members;
}

/// The mean factor for staleness on the updates of these workers of one group, if their batches have `size`
/// examples and nobody else works.
double stalenessFactor(const WorkerMix& mix, const std::vector<std::size_t>& members, double size) {
  constexpr std::int64_t rounds = 50;
  if (mix.staleness.rule == StalenessRule::none || members.size() == 1) return 1.0;
  WorkerMix alone;
  alone.rules.rule = WorkerRule::fixed;
  alone.staleness = mix.staleness;
  alone.groups = {mix.groups[mix.workers[members.front()].group]};
  alone.groups[0].start = alone.groups[0].lower = alone.groups[0].upper = static_cast<std::int64_t>(size);
  for (const std::size_t member : members) {
    alone.workers.push_back(mix.workers[member]);
    alone.workers.back().group = 0;
  }
  const std::int64_t batches = rounds * static_cast<std::int64_t>(members.size());
  alone.examples = batches * alone.groups[0].start;
  return playCourse(alone, 1).progress / static_cast<double>(batches);
}

/// The speed of these workers of one group if their batches have `size` examples; without the batches.
UseForecast speedAlone(const WorkerMix& mix, const std::vector<std::size_t>& members, double size) {
  UseForecast use;
  const double fresh = stalenessFactor(mix, members, size);
  for (const std::size_t member : members) {
    const WorkerSpeed& worker = mix.workers[member];
    const double counted = mix.rules.weight(mix.groups[worker.group].role),
                 per_second = 1.0 / worker.seconds(size);
    use.examples_per_second += size * per_second;
    use.progress_per_second += counted * fresh * mix.rate.factor(size) * per_second;
  }
  return use;
}

/// The best batch for these workers alone, and their speed with it.
struct BestAlone {
  UseForecast use; ///< without the batches
  double size = 0.0;
};

/// Tries hundreds of sizes. Each looks at the members only, because there may be thousands of groups.
BestAlone bestAlone(const WorkerMix& mix, std::size_t group, const std::vector<std::size_t>& members) {
  const WorkerGroup& bounds = mix.groups[group];
  const double upper = static_cast<double>(bounds.upper), reference = mix.rate.reference;
  BestAlone best;
  const auto consider = [&](double size) {
    const UseForecast use = speedAlone(mix, members, size);
    if (use.progress_per_second > best.use.progress_per_second * (1.0 + 1e-9)) best = {use, size};
  };
  auto size = static_cast<double>(bounds.lower);
  while (size < upper) {
    consider(size);
    size = std::max(size + 1.0, std::floor(size * finer));
  }
  consider(upper);
  if (reference >= static_cast<double>(bounds.lower) && reference <= upper) consider(reference);
  return best;
}

UseForecast withBatches(const WorkerMix& mix, const std::vector<std::size_t>& members,
                        const BestAlone& best) {
  UseForecast use = best.use;
  use.batches.assign(mix.workers.size(), 0.0);
  for (const std::size_t member : members) use.batches[member] = best.size;
  return use;
}

} // namespace

UseForecast forecastAlone(const WorkerMix& mix, std::size_t group) {
  const std::vector<std::size_t> members = membersOf(mix)[group];
  return withBatches(mix, members, bestAlone(mix, group, members));
}

namespace {

/// A step in which each worker computes as much as it can in this time, before they change the model one
/// after another.
UseForecast stepOf(const WorkerMix& mix, double seconds) {
  UseForecast step;
  double examples = 0.0, turns = 0.0;
  step.batches.reserve(mix.workers.size());
  for (std::size_t i = 0; i < mix.workers.size(); ++i) {
    const WorkerSpeed& worker = mix.workers[i];
    const double computing = seconds - worker.gradientSeconds(0.0);
    const double fits = std::floor(computing * worker.speed * (1.0 + 1e-12));
    step.batches.push_back(std::clamp(fits, 0.0, largestBatch(mix, i)));
    examples += step.batches.back();
    if (step.batches.back() > 0.0) turns += worker.turnSeconds();
  }
  step.examples_per_second = examples / (seconds + turns);
  step.progress_per_second = examples > 0.0 ? mix.rate.factor(examples) / (seconds + turns) : 0.0;
  return step;
}

} // namespace

UseForecast forecastInStep(const WorkerMix& mix) {
  double shortest = 0.0, longest = 0.0;
  for (std::size_t i = 0; i < mix.workers.size(); ++i) {
    const WorkerSpeed& worker = mix.workers[i];
    const double one = worker.gradientSeconds(1.0), all = worker.gradientSeconds(largestBatch(mix, i));
    shortest = i == 0 ? one : std::min(shortest, one);
    longest = std::max(longest, all);
  }
  UseForecast best;
  double seconds = shortest;
  while (seconds < longest * finer) {
    const UseForecast step = stepOf(mix, seconds);
    if (step.progress_per_second > best.progress_per_second) best = step;
    seconds *= finer;
  }
  return best;
}

HogbatchForecast forecastOf(const WorkerMix& mix, const WorkerMix& at_own_pace) {
  constexpr double worth_it = 1.05;
  HogbatchForecast forecast;
  forecast.course = settledCourse(mix);
  forecast.epoch_seconds = static_cast<double>(mix.examples) / forecast.course.examplesPerSecond();
  const bool in_step = mix.rules.rule == WorkerRule::synchronous;
  forecast.asynchronous = useOf(in_step ? settledCourse(at_own_pace) : forecast.course);
  forecast.synchronous = in_step ? useOf(forecast.course) : forecastInStep(mix);
  if (!in_step) {
    WorkerMix fixed = mix;
    fixed.rules.rule = WorkerRule::fixed;
    forecast.price_of_balance =
        settledCourse(fixed).examplesPerSecond() / forecast.course.examplesPerSecond();
  }
  const std::vector<std::vector<std::size_t>> members = membersOf(at_own_pace);
  BestAlone best;
  std::size_t best_group = 0;
  for (std::size_t group = 0; group < members.size(); ++group) {
    const BestAlone alone = bestAlone(at_own_pace, group, members[group]);
    if (group > 0 && alone.use.progress_per_second <= best.use.progress_per_second) continue;
    best = alone;
    best_group = group;
  }
  forecast.alone = withBatches(at_own_pace, members[best_group], best);
  forecast.best = in_step ? WorkerUse::synchronous : WorkerUse::asynchronous;
  const double own = forecast.course.progressPerSecond();
  for (const WorkerUse use : {WorkerUse::alone, WorkerUse::synchronous, WorkerUse::asynchronous}) {
    const double gain = forecast.of(use).progress_per_second / own;
    if (gain < worth_it || gain <= forecast.gain) continue;
    forecast.best = use;
    forecast.gain = gain;
  }
  return forecast;
}

MeasuredUse expectedUse(const HogbatchForecast& forecast) {
  MeasuredUse use;
  double updates = 0.0;
  for (const WorkerCourse& worker : forecast.course.workers) updates += static_cast<double>(worker.updates);
  for (const WorkerCourse& worker : forecast.course.workers)
    use.shares.push_back(static_cast<double>(worker.updates) / std::max(1.0, updates));
  use.examples_per_second = forecast.course.examplesPerSecond();
  use.staleness_mean = forecast.course.stalenessMean();
  use.epoch_seconds = forecast.epoch_seconds;
  return use;
}

} // namespace partita
