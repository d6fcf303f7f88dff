#include "partita/plan/hogbatch/virtual_clock.hpp"

#include "partita/plan/hogbatch/batch_dispatcher.hpp"
#include "partita/plan/share.hpp"

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
    _course.epochs = epochs;
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
    const std::int64_t wanted = _controller.batch(speed.group, speed.lanes);
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
    const WorkerSpeed& speed = _mix.workers[worker];
    WorkerCourse& course = _course.workers[worker];
    const ExampleRange batch = _dispatcher.outstanding(worker).front();
    const std::int64_t examples = batch.count;
    const std::int64_t updates = applyLanes(worker, batch);
    ++course.batches;
    course.examples += examples;
    course.busy += _seconds[worker];
    _controller.finished(speed.group, {speed.lanes, updates, examples, _wanted[worker], _seconds[worker]});
    _dispatcher.finished(worker);
  }

  /// All lanes read the parameters when the batch began. Returns the number of updates that count.
  std::int64_t applyLanes(std::size_t worker, const ExampleRange& batch) {
    WorkerCourse& course = _course.workers[worker];
    const std::int64_t lanes = std::min(_mix.workers[worker].lanes, batch.count);
    const bool shared = _mix.groups[_mix.workers[worker].group].role == WorkerRole::shared;
    const double rate = _mix.rate.factor(static_cast<double>(batch.count) / static_cast<double>(lanes)),
                 counted = shared ? _mix.rules.beta : 1.0;
    std::int64_t updates = 0;
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const std::int64_t tau = _version - _read[worker];
      const double factor = _mix.staleness.factor(tau);
      course.staleness_sum += static_cast<double>(tau);
      course.staleness_max = std::max(course.staleness_max, tau);
      if (_updates != nullptr) {
        const IndexRange share = shareOf(batch.count, lane, lanes);
        _updates->push_back({_course.seconds, worker, _epoch, batch.first + share.begin, share.size(),
                             _read[worker], factor == 0.0 ? -1 : _version, rate * factor});
      }
      if (factor == 0.0) continue;
      _course.progress += counted * rate * factor;
      ++_version;
      ++updates;
    }
    course.updates += updates;
    course.dropped += lanes - updates;
    return updates;
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

/// Workers in step: each computes its part of a step, and the slowest decides. The controller knows the
/// speeds from the beginning.
class StepCourse {
 public:
  explicit StepCourse(const WorkerMix& mix) : _mix(mix), _controller(mix.rules, mix.groups) {
    _course.workers.resize(mix.workers.size());
    _controller.setSpeeds(mix.speeds.empty() ? measuredSpeeds(mix) : mix.speeds);
  }

  Course play(std::int64_t epochs) {
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch)
      for (std::int64_t done = 0; done < _mix.examples; done += _controller.rules().batch)
        playStep(std::min(_controller.rules().batch, _mix.examples - done));
    for (std::size_t i = 0; i < _mix.groups.size(); ++i) _course.shares.push_back(_controller.share(i));
    _course.epochs = epochs;
    _course.examples = epochs * _mix.examples;
    return std::move(_course);
  }

 private:
  static std::vector<double> measuredSpeeds(const WorkerMix& mix) {
    std::vector<double> speeds(mix.groups.size(), 0.0);
    for (const WorkerSpeed& worker : mix.workers) {
      const auto batch = static_cast<double>(mix.rules.batch) / static_cast<double>(mix.workers.size());
      speeds[worker.group] += batch > 0.0 ? batch / worker.seconds(batch) : worker.speed;
    }
    return speeds;
  }

  void playStep(std::int64_t examples) {
    const std::vector<std::int64_t>& parts = partsOf(examples);
    double longest = 0.0;
    for (std::size_t i = 0; i < _mix.workers.size(); ++i) {
      const WorkerSpeed& worker = _mix.workers[i];
      const std::int64_t part = parts[worker.group];
      if (part == 0) continue;
      const double seconds = worker.seconds(static_cast<double>(part));
      WorkerCourse& course = _course.workers[i];
      if (course.batches == 0) course.batch_first = part;
      if (examples == _controller.rules().batch) course.batch_last = part;
      ++course.batches;
      ++course.updates;
      course.examples += part;
      course.busy += seconds;
      longest = std::max(longest, seconds);
      _controller.finished(worker.group, {worker.lanes, 1, part, part, seconds});
    }
    _course.seconds += longest;
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
