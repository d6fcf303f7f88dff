#include "partita/plan/hogbatch/virtual_clock.hpp"

#include "partita/plan/hogbatch/batch_dispatcher.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace partita {

double WorkerCourse::stalenessMean() const {
  const std::int64_t computed = updates + dropped;
  return computed > 0 ? staleness_sum / static_cast<double>(computed) : 0.0;
}

double Course::stalenessMean() const {
  WorkerCourse all;
  for (const WorkerCourse& worker : workers) {
    all.updates += worker.updates;
    all.dropped += worker.dropped;
    all.staleness_sum += worker.staleness_sum;
  }
  return all.stalenessMean();
}

std::int64_t Course::stalenessMax() const {
  std::int64_t most = 0;
  for (const WorkerCourse& worker : workers) most = std::max(most, worker.staleness_max);
  return most;
}

namespace {

/// Workers that get a batch whenever they are idle.
class FreeCourse {
 public:
  FreeCourse(const WorkerMix& mix, std::vector<TimedUpdate>* updates)
      : _mix(mix), _updates(updates), _controller(mix.rules, mix.groups),
        _dispatcher(mix.examples, mix.workers.size()), _wanted(mix.workers.size()), _read(mix.workers.size()),
        _seconds(mix.workers.size()) {
    _course.workers.resize(mix.workers.size());
  }

  Course play(std::int64_t epochs) {
    for (_epoch = 0; _epoch < epochs; ++_epoch) {
      if (_epoch > 0) _dispatcher.startEpoch();
      playEpoch();
    }
    for (std::size_t i = 0; i < _mix.groups.size(); ++i) _course.shares.push_back(_controller.share(i));
    _course.examples = epochs * _mix.examples;
    return std::move(_course);
  }

 private:
  void playEpoch() {
    for (const std::size_t worker : fewestFirst(_course.workers)) start(worker);
    while (!_events.empty()) {
      const auto [now, worker] = _events.top();
      _events.pop();
      _course.seconds = now;
      finish(worker);
      start(worker);
    }
  }

  void start(std::size_t worker) {
    const WorkerSpeed& speed = _mix.workers[worker];
    WorkerCourse& course = _course.workers[worker];
    const std::int64_t wanted = _controller.size(speed.group);
    const auto batch = _dispatcher.next(worker, wanted);
    if (!batch) return;
    if (course.batches == 0) course.batch_first = batch->count;
    if (batch->count == wanted || course.batches == 0) course.batch_last = batch->count;
    _wanted[worker] = wanted;
    _read[worker] = _version;
    const double expected = speed.seconds(static_cast<double>(batch->count));
    _seconds[worker] = _mix.chance ? _mix.chance(expected) : expected;
    _events.emplace(_course.seconds + _seconds[worker], worker);
  }

  void finish(std::size_t worker) {
    const std::size_t group = _mix.workers[worker].group;
    WorkerCourse& course = _course.workers[worker];
    const ExampleRange batch = _dispatcher.outstanding(worker).front();
    const bool applied = apply(worker, batch);
    ++course.batches;
    course.examples += batch.count;
    course.busy += _seconds[worker];
    _controller.finished(group, {applied, batch.count, _wanted[worker], _seconds[worker]});
    _dispatcher.finished(worker);
  }

  /// Returns false if the update is dropped.
  bool apply(std::size_t worker, const ExampleRange& batch) {
    WorkerCourse& course = _course.workers[worker];
    const std::int64_t tau = _version - _read[worker];
    const double rate = _mix.rate.factor(static_cast<double>(batch.count)),
                 factor = _mix.staleness.factor(tau);
    const bool applied = factor > 0.0;
    course.staleness_sum += static_cast<double>(tau);
    course.staleness_max = std::max(course.staleness_max, tau);
    if (_updates != nullptr)
      _updates->push_back({_course.seconds, worker, _epoch, batch.first, batch.count, _read[worker],
                           applied ? _version : -1, rate * factor});
    ++(applied ? course.updates : course.dropped);
    if (!applied) return false;
    _course.progress += _mix.rules.weight(_mix.groups[_mix.workers[worker].group].role) * rate * factor;
    ++_version;
    return true;
  }

  using Event = std::pair<double, std::size_t>; ///< end of a batch, worker

  const WorkerMix& _mix;
  std::vector<TimedUpdate>* _updates;
  BatchController _controller;
  BatchDispatcher _dispatcher;
  std::int64_t _epoch = 0;
  std::vector<std::int64_t> _wanted; ///< examples that the worker was to get
  std::vector<std::int64_t> _read;   ///< version that the worker computes from
  std::vector<double> _seconds;      ///< of the worker's batch
  std::int64_t _version = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> _events;
  Course _course;
};

/// Workers in step: each computes its part of a step. When the slowest is ready, they change the model one
/// after another. The controller knows the speeds from the beginning.
class StepCourse {
 public:
  explicit StepCourse(const WorkerMix& mix) : _mix(mix), _controller(mix.rules, mix.groups) {
    _course.workers.resize(mix.workers.size());
    _controller.setSpeeds(mix.speeds.empty() ? measuredSpeeds() : mix.speeds);
  }

  Course play(std::int64_t epochs) {
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch)
      for (std::int64_t done = 0; done < _mix.examples; done += _controller.rules().batch)
        playStep(std::min(_controller.rules().batch, _mix.examples - done));
    for (std::size_t i = 0; i < _mix.groups.size(); ++i) _course.shares.push_back(_controller.share(i));
    _course.examples = epochs * _mix.examples;
    return std::move(_course);
  }

 private:
  std::vector<double> measuredSpeeds() const {
    const double batch =
        static_cast<double>(_controller.rules().batch) / static_cast<double>(_mix.workers.size());
    std::vector<double> speeds(_mix.groups.size());
    for (const WorkerSpeed& worker : _mix.workers)
      speeds[worker.group] = batch / worker.gradientSeconds(batch);
    return speeds;
  }

  void playStep(std::int64_t examples) {
    const std::vector<std::int64_t>& parts = partsOf(examples);
    double longest = 0.0, turns = 0.0;
    for (std::size_t i = 0; i < _mix.workers.size(); ++i) {
      const WorkerSpeed& worker = _mix.workers[i];
      const std::int64_t part = parts[worker.group];
      if (part == 0) continue;
      const double seconds = worker.gradientSeconds(static_cast<double>(part));
      WorkerCourse& course = _course.workers[i];
      if (course.batches == 0) course.batch_first = part;
      if (examples == _controller.rules().batch || course.batches == 0) course.batch_last = part;
      ++course.batches;
      ++course.updates;
      course.examples += part;
      course.busy += seconds + worker.turnSeconds();
      longest = std::max(longest, seconds);
      turns += worker.turnSeconds();
      _controller.finished(worker.group, {true, part, part, seconds});
    }
    _course.seconds += longest + turns;
    _course.progress += _mix.rate.factor(static_cast<double>(examples));
  }

  /// The parts of a step. Sizes do not change during a course, so steps of the same length have the same
  /// parts. A search for parts costs hundreds of times as much as the rest of a step.
  const std::vector<std::int64_t>& partsOf(std::int64_t examples) {
    if (_divided != examples) _parts = _controller.split(examples);
    _divided = examples;
    return _parts;
  }

  const WorkerMix& _mix;
  BatchController _controller;
  std::vector<std::int64_t> _parts; ///< of each group in a step of `_divided` examples
  std::int64_t _divided = 0;
  Course _course;
};

} // namespace

Course playCourse(const WorkerMix& mix, std::int64_t epochs, std::vector<TimedUpdate>* updates) {
  if (mix.rules.rule == WorkerRule::synchronous) return StepCourse(mix).play(epochs);
  return FreeCourse(mix, updates).play(epochs);
}

} // namespace partita
