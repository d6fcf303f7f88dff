#include "partita/plan/cost/pipeline_events.hpp"

#include <algorithm>

namespace partita {

namespace {

struct Operation {
  bool forward;
  std::int64_t segment;
};

/// The operations of a stage in their order: some forward passes, then one of each kind in turn, then the
/// rest.
std::vector<Operation> orderOf(std::int64_t segments, std::int64_t live) {
  std::vector<Operation> order;
  order.reserve(2 * segments);
  for (std::int64_t s = 0; s < live; ++s) order.push_back({true, s});
  for (std::int64_t s = 0; s < segments; ++s) {
    order.push_back({false, s});
    if (s + live < segments) order.push_back({true, s + live});
  }
  return order;
}

/// In [0, 1): Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
double uniform(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t z = seed + (counter + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
}

class Simulation {
 public:
  Simulation(const std::vector<PipelineStage>& stages, std::int64_t segments, PipelineSchedule schedule,
             const PipelineJitter& jitter)
      : _stages(stages), _segments(segments), _jitter(jitter), _free(stages.size(), 0.0),
        _next(stages.size(), 0), _forward(stages.size(), std::vector<double>(segments, not_done)),
        _backward(_forward) {
    const auto count = static_cast<std::int64_t>(stages.size());
    for (std::int64_t i = 0; i < count; ++i)
      _orders.push_back(orderOf(segments, liveSegments(i, count, segments, schedule)));
  }

  double run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t i = 0; i < _stages.size(); ++i)
        while (_next[i] < _orders[i].size() && tryOperation(i)) moved = true;
    }
    return *std::max_element(_free.begin(), _free.end());
  }

 private:
  static constexpr double not_done = -1.0;

  /// When the input of an operation is there; negative: not yet.
  double arrival(std::size_t stage, const Operation& operation) const {
    const std::size_t s = operation.segment;
    if (operation.forward) {
      if (stage == 0) return 0.0;
      return later(_forward[stage - 1][s], _stages[stage - 1].message);
    }
    if (stage + 1 == _stages.size()) return _forward[stage][s];
    return later(_backward[stage + 1][s], _stages[stage].message);
  }

  static double later(double time, double message) { return time < 0.0 ? not_done : time + message; }

  bool tryOperation(std::size_t stage) {
    const Operation operation = _orders[stage][_next[stage]];
    const double start = arrival(stage, operation);
    if (start < 0.0) return false;
    const std::uint64_t counter = stage * 2 * _segments + _next[stage];
    const double own = operation.forward ? _stages[stage].forward : _stages[stage].backward;
    _free[stage] =
        std::max(_free[stage], start) + own * (1.0 + _jitter.amplitude * uniform(_jitter.seed, counter));
    (operation.forward ? _forward : _backward)[stage][operation.segment] = _free[stage];
    ++_next[stage];
    return true;
  }

  const std::vector<PipelineStage>& _stages;
  std::int64_t _segments;
  PipelineJitter _jitter;
  std::vector<double> _free;                            ///< end of the last operation of each stage
  std::vector<std::size_t> _next;                       ///< operation of each stage
  std::vector<std::vector<double>> _forward, _backward; ///< end of each operation, by stage and segment
  std::vector<std::vector<Operation>> _orders;
};

} // namespace

std::int64_t liveSegments(std::int64_t stage, std::int64_t stages, std::int64_t segments,
                          PipelineSchedule schedule) {
  return schedule == PipelineSchedule::gpipe ? segments : std::min(segments, stages - stage);
}

double pipelineSeconds(const std::vector<PipelineStage>& stages, std::int64_t segments,
                       PipelineSchedule schedule, const PipelineJitter& jitter) {
  return Simulation(stages, segments, schedule, jitter).run();
}

} // namespace partita
