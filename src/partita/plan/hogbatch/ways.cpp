#include "partita/plan/hogbatch/ways.hpp"

#include "partita/plan/hogbatch/first_batches.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace partita {

template <>
const std::vector<std::string>& namesOf<WorkerUse>() {
  static const std::vector<std::string> names{"asynchronous", "synchronous", "alone"};
  return names;
}

namespace {

/// The beginning of a long epoch. It has whole steps, because a short one would count too much.
std::int64_t playedExamples(const WorkerMix& mix) {
  constexpr std::int64_t most_examples = 2000000;
  if (mix.examples <= most_examples) return mix.examples;
  const std::int64_t step = mix.rules.rule == WorkerRule::synchronous ? mix.rules.batch : 0;
  if (step == 0) return most_examples;
  return std::min(mix.examples, std::max<std::int64_t>(1, most_examples / step) * step);
}

} // namespace

Course settledCourse(WorkerMix mix) {
  constexpr std::int64_t enough_batches = 20000, most_epochs = 20;
  mix.examples = playedExamples(mix);
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

namespace {

/// What workers achieve with these first batches.
UseForecast startedUse(const WorkerMix& mix, const FirstBatches& first, WorkerRule rule) {
  const WorkerMix started = startedWith(mix, first, rule);
  UseForecast use = useOf(settledCourse(started));
  use.rule = rule;
  use.batch = use.batch_shared = 0;
  for (std::size_t i = 0; i < mix.workers.size(); ++i) {
    const WorkerGroup& group = started.groups[mix.workers[i].group];
    (group.role == WorkerRole::shared ? use.batch_shared : use.batch) = group.start;
    if (rule == WorkerRule::fixed) use.batches[i] = static_cast<double>(group.start);
  }
  if (use.batch == 0) { // without replica workers, it is only the reference of the learning rate
    const std::int64_t reference = std::llround(mix.rate.reference);
    use.batch = reference > 0 ? reference : use.batch_shared;
  }
  return use;
}

/// What each worker can achieve with the best size of its group if nobody waits and no update is late.
std::vector<double> mostOfWorkers(const WorkerMix& mix) {
  constexpr int sizes = 40;
  std::vector<double> most(mix.workers.size());
  for (const WorkerRole role : {WorkerRole::replica, WorkerRole::shared})
    for (const std::int64_t size : sizesToTry(mix, role, sizes))
      for (std::size_t i = 0; i < mix.workers.size(); ++i) {
        const WorkerGroup& group = mix.groups[mix.workers[i].group];
        if (group.role != role) continue;
        const auto own = static_cast<double>(std::clamp(size, group.lower, group.upper));
        const double progress = mix.rules.weight(role) * mix.rate.factor(own) / mix.workers[i].seconds(own);
        most[i] = std::max(most[i], progress);
      }
  return most;
}

bool movesBatches(const BatchRules& rules) {
  return rules.rule == WorkerRule::adaptive || rules.rule == WorkerRule::proportional;
}

/// First batches for a rule that changes them.
std::vector<std::int64_t> firstSizes(const WorkerMix& mix) {
  constexpr int sizes = 5;
  const bool replicas = std::any_of(mix.groups.begin(), mix.groups.end(), [](const WorkerGroup& group) {
    return group.role == WorkerRole::replica;
  });
  return sizesToTry(mix, replicas ? WorkerRole::replica : WorkerRole::shared, sizes);
}

} // namespace

UseForecast forecastAsynchronous(const WorkerMix& mix) {
  constexpr std::int64_t most_workers = 8000; // takes seconds
  constexpr double worth_it = 1.01;           // a rule that changes batches must do better than fixed ones
  UseForecast best = startedUse(mix, bestFixedBatches(mix), WorkerRule::fixed);
  if (!movesBatches(mix.rules)) return best;
  double needed = worth_it * best.progress_per_second;
  const std::vector<double> most = mostOfWorkers(mix);
  if (std::accumulate(most.begin(), most.end(), 0.0) <= needed) return best;
  std::int64_t workers = 0; // that have been played
  for (const std::int64_t size : firstSizes(mix)) {
    if (workers >= most_workers) break;
    workers += static_cast<std::int64_t>(mix.workers.size());
    const UseForecast use = startedUse(mix, {size, size}, mix.rules.rule);
    if (use.progress_per_second <= needed) continue;
    needed = use.progress_per_second;
    best = use;
  }
  return best;
}

UseForecast forecastAlone(const WorkerMix& mix, std::size_t group) {
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < mix.workers.size(); ++i)
    if (mix.workers[i].group == group) members.push_back(i);
  const WorkerMix alone = chosenWorkers(mix, members, false);
  UseForecast use = startedUse(alone, bestFixedBatches(alone), WorkerRule::fixed);
  std::vector<double> batches(mix.workers.size());
  for (std::size_t i = 0; i < members.size(); ++i) batches[members[i]] = use.batches[i];
  use.batches = batches;
  return use;
}

/// There may be thousands of groups. Only the fastest replica worker can win, or the shared workers.
UseForecast forecastBestAlone(const WorkerMix& mix) {
  const std::vector<double> workers = mostOfWorkers(mix);
  std::vector<double> groups(mix.groups.size());
  for (std::size_t i = 0; i < workers.size(); ++i) groups[mix.workers[i].group] += workers[i];
  UseForecast best;
  for (const WorkerRole role : {WorkerRole::replica, WorkerRole::shared}) {
    const std::size_t none = groups.size();
    std::size_t fastest = none;
    for (std::size_t i = 0; i < groups.size(); ++i)
      if (mix.groups[i].role == role && (fastest == none || groups[i] > groups[fastest])) fastest = i;
    if (fastest == none) continue;
    const UseForecast use = forecastAlone(mix, fastest);
    if (use.progress_per_second > best.progress_per_second) best = use;
  }
  return best;
}

namespace {

double largestBatch(const WorkerMix& mix, std::size_t worker) {
  return static_cast<double>(mix.groups[mix.workers[worker].group].upper);
}

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
  step.batch = static_cast<std::int64_t>(examples);
  step.examples_per_second = examples / (seconds + turns);
  step.progress_per_second = examples > 0.0 ? mix.rate.factor(examples) / (seconds + turns) : 0.0;
  return step;
}

/// Takes examples from the last workers if the step has more than `most`.
void shorten(UseForecast& step, std::int64_t most) {
  for (std::size_t i = step.batches.size(); i > 0 && step.batch > most; --i) {
    const auto excess = static_cast<double>(step.batch - most), taken = std::min(step.batches[i - 1], excess);
    step.batches[i - 1] -= taken;
    step.batch -= static_cast<std::int64_t>(taken);
  }
}

/// Steps that fit into an epoch and into training/batch, the most promising first.
std::vector<UseForecast> stepsToTry(const WorkerMix& mix) {
  constexpr double finer = 1.02;               // ratio of successive times
  constexpr std::int64_t most_batch = 1 << 24; // of a deck
  const std::int64_t most = std::min(mix.examples, most_batch);
  double shortest = 0.0, longest = 0.0;
  for (std::size_t i = 0; i < mix.workers.size(); ++i) {
    const WorkerSpeed& worker = mix.workers[i];
    const double one = worker.gradientSeconds(1.0), all = worker.gradientSeconds(largestBatch(mix, i));
    shortest = i == 0 ? one : std::min(shortest, one);
    longest = std::max(longest, all);
  }
  std::vector<UseForecast> steps;
  double seconds = shortest;
  while (seconds < longest * finer) {
    UseForecast step = stepOf(mix, seconds);
    seconds *= finer;
    if (step.batch == 0 || (step.batch > most && !steps.empty())) continue;
    shorten(step, most);
    if (steps.empty() || step.batch != steps.back().batch) steps.push_back(std::move(step));
  }
  std::stable_sort(steps.begin(), steps.end(), [](const UseForecast& a, const UseForecast& b) {
    return a.progress_per_second > b.progress_per_second;
  });
  return steps;
}

/// The step as in a run. Workers get parts by the speeds that they turn out to have in equal parts or, if
/// `given`, exactly those of this step.
UseForecast playedStep(const WorkerMix& mix, const UseForecast& step, bool given) {
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < step.batches.size(); ++i)
    if (step.batches[i] > 0.0) members.push_back(i);
  WorkerMix chosen = chosenWorkers(mix, members, true);
  for (WorkerGroup& group : chosen.groups) group.lower = group.start = 1;
  chosen.rules.rule = WorkerRule::synchronous;
  chosen.rules.batch = step.batch;
  UseForecast use;
  for (const std::size_t member : members)
    if (given) chosen.speeds.push_back(step.batches[member]);
  const UseForecast found = useOf(settledCourse(chosen));
  use.examples_per_second = found.examples_per_second;
  use.progress_per_second = found.progress_per_second;
  use.batches.assign(mix.workers.size(), 0.0);
  for (std::size_t i = 0; i < members.size(); ++i) use.batches[members[i]] = found.batches[i];
  use.rule = WorkerRule::synchronous;
  use.batch = step.batch;
  use.speeds.assign(chosen.speeds.begin(), chosen.speeds.end());
  return use;
}

} // namespace

UseForecast forecastInStep(const WorkerMix& mix) {
  constexpr std::size_t most_trials = 5;
  constexpr double clearly = 1.005;
  const std::vector<UseForecast> steps = stepsToTry(mix);
  UseForecast best;
  for (std::size_t i = 0; i < std::min(steps.size(), most_trials); ++i)
    for (const bool given : {false, true}) {
      if (steps[i].progress_per_second <= clearly * best.progress_per_second) break;
      const UseForecast use = playedStep(mix, steps[i], given);
      if (use.progress_per_second > clearly * best.progress_per_second) best = use;
    }
  return best;
}

} // namespace partita
