#include "partita/plan/hogbatch/first_batches.hpp"

#include "partita/plan/hogbatch/virtual_clock.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace partita {

std::int64_t FirstBatches::of(const WorkerGroup& group) const {
  return std::clamp(of(group.role), group.lower, group.upper);
}

WorkerMix chosenWorkers(const WorkerMix& mix, const std::vector<std::size_t>& members, bool apart) {
  const std::size_t none = mix.groups.size();
  WorkerMix chosen = mix;
  chosen.groups.clear();
  chosen.workers.clear();
  chosen.speeds.clear();
  std::vector<std::size_t> places(mix.groups.size(), none); // of groups among the chosen ones
  for (const std::size_t member : members) {
    std::size_t& place = places[mix.workers[member].group];
    if (apart || place == none) {
      place = chosen.groups.size();
      chosen.groups.push_back(mix.groups[mix.workers[member].group]);
      chosen.groups.back().workers = 0;
    }
    ++chosen.groups[place].workers;
    chosen.workers.push_back(mix.workers[member]);
    chosen.workers.back().group = place;
  }
  return chosen;
}

WorkerMix startedWith(const WorkerMix& mix, const FirstBatches& first, WorkerRule rule) {
  WorkerMix started = mix;
  started.rules.rule = rule;
  started.rules.batch = 0;
  for (WorkerGroup& group : started.groups) {
    group.start = first.of(group);
    if (rule == WorkerRule::fixed) group.lower = group.upper = group.start;
  }
  return started;
}

double mostProgress(const WorkerMix& mix, const FirstBatches& first) {
  double most = 0.0;
  for (const WorkerSpeed& worker : mix.workers) {
    const WorkerGroup& group = mix.groups[worker.group];
    const auto size = static_cast<double>(first.of(group));
    most += mix.rules.weight(group.role) * mix.rate.factor(size) / worker.seconds(size);
  }
  return most;
}

std::vector<std::int64_t> sizesToTry(const WorkerMix& mix, WorkerRole role, int count) {
  std::set<std::int64_t> wanted;
  std::int64_t lower = 0, upper = 0;
  for (const WorkerGroup& group : mix.groups) {
    if (group.role != role) continue;
    lower = lower == 0 ? group.lower : std::min(lower, group.lower);
    upper = std::max(upper, group.upper);
    wanted.insert(group.start);
  }
  if (lower == 0) return {1};
  const auto least = static_cast<double>(lower), width = static_cast<double>(upper) / least;
  for (int i = 0; i <= count; ++i)
    wanted.insert(std::lround(least * std::pow(width, static_cast<double>(i) / count)));
  const double followed = mix.rate.reference * (mix.rate.cap > 0.0 ? mix.rate.cap : 1.0);
  if (followed >= least && followed <= static_cast<double>(upper)) wanted.insert(std::lround(followed));
  return {wanted.rbegin(), wanted.rend()};
}

namespace {

/// Divides short epochs into equal batches, so that no worker waits at their end.
void addEqualParts(const WorkerMix& mix, std::vector<std::int64_t>& sizes) {
  constexpr std::int64_t most_rounds = 8;
  const std::int64_t lower = sizes.back(), upper = sizes.front();
  const auto workers = static_cast<std::int64_t>(mix.workers.size());
  for (std::int64_t parts = workers; parts <= most_rounds * workers; parts += workers) {
    const std::int64_t size = (mix.examples + parts - 1) / parts;
    if (size >= lower && size <= upper) sizes.push_back(size);
  }
}

/// Without waiting and late updates, larger batches make more progress as long as learning rates follow them.
/// Ends of epochs and stale updates change that, so the clock decides.
class FixedSearch {
 public:
  explicit FixedSearch(const WorkerMix& mix) : _mix(mix) {}

  FirstBatches best() {
    constexpr int some = 8, many = 12;
    constexpr std::int64_t most_batches = 500000; // takes a fraction of a second
    const bool both = sizesToTry(_mix, WorkerRole::replica, 1).front() > 1 &&
                      sizesToTry(_mix, WorkerRole::shared, 1).front() > 1;
    std::vector<std::int64_t> replicas = sizesToTry(_mix, WorkerRole::replica, both ? some : many),
                              shared = sizesToTry(_mix, WorkerRole::shared, both ? some : many);
    if (!both) addEqualParts(_mix, replicas.front() > 1 ? replicas : shared);
    std::vector<std::pair<double, FirstBatches>> trials;
    for (const std::int64_t replica : replicas)
      for (const std::int64_t one : shared)
        trials.emplace_back(mostProgress(_mix, {replica, one}), FirstBatches{replica, one});
    std::stable_sort(trials.begin(), trials.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [most, first] : trials)
      if (_batches < most_batches) consider(first, most);
    for (const double factor : {both ? 1.4 : 1.15, 1.1, 1.05}) refine(factor);
    return _best;
  }

 private:
  /// The most promising sizes come first. Others have to be better by more than short batches matter.
  void consider(const FirstBatches& first, double most) {
    constexpr double clearly = 1.005;
    if (most <= clearly * _progress) return;
    WorkerMix mix = startedWith(_mix, first, WorkerRule::fixed);
    mix.examples = std::min(mix.examples, enoughExamples(mix));
    const Course course = playCourse(mix, 1);
    for (const WorkerCourse& worker : course.workers) _batches += worker.batches;
    if (course.progressPerSecond() <= clearly * _progress) return;
    _progress = course.progressPerSecond();
    _best = first;
  }

  /// Stale updates cannot be ruled out by their number alone, so more sizes are played, but for a shorter
  /// time.
  static std::int64_t enoughExamples(const WorkerMix& mix) {
    constexpr double rounds = 50.0;
    const double batches = mix.staleness.rule == StalenessRule::none ? 20000.0 : 5000.0;
    double updates = 0.0, examples = 0.0; // per second
    for (const WorkerSpeed& worker : mix.workers) {
      const auto size = static_cast<double>(mix.groups[worker.group].start);
      updates += 1.0 / worker.seconds(size);
      examples += size / worker.seconds(size);
    }
    const double enough = std::max(batches, rounds * static_cast<double>(mix.workers.size()));
    return static_cast<std::int64_t>(std::min(1e15, std::ceil(enough * examples / updates)));
  }

  void refine(double factor) {
    const FirstBatches centre = _best;
    for (const double replicas : {1.0 / factor, 1.0, factor})
      for (const double shared : {1.0 / factor, 1.0, factor}) {
        const FirstBatches first{scaled(centre.replicas, replicas), scaled(centre.shared, shared)};
        consider(first, mostProgress(_mix, first));
      }
  }

  static std::int64_t scaled(std::int64_t size, double factor) {
    return std::max<std::int64_t>(1, std::lround(static_cast<double>(size) * factor));
  }

  const WorkerMix& _mix;
  FirstBatches _best;
  double _progress = 0.0;
  std::int64_t _batches = 0; ///< that have been played
};

} // namespace

FirstBatches bestFixedBatches(const WorkerMix& mix) {
  return FixedSearch(mix).best();
}

} // namespace partita
