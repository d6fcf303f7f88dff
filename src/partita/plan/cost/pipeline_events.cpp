#include "partita/plan/cost/pipeline_events.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace partita {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// A rank of the pipeline during the simulation.
struct SimulatedRank {
  SimulatedRank(ScheduleRule its_rule, std::int64_t segments, bool first)
      : rule(its_rule), activations(segments, first ? 0.0 : never), gradients(segments, never) {}

  /// The arrival time of the input for the next pass that the rule permits, forward or backward.
  double forwardInput() const { return rule.mayForward(progress) ? activations[progress.forwards] : never; }
  double backwardInput() const { return rule.mayBackward(progress) ? gradients[progress.backwards] : never; }
  double nextInput() const { return std::min(forwardInput(), backwardInput()); }

  /// What it can do now.
  PassKind next(double now) const {
    const double forward = forwardInput(), backward = backwardInput();
    Arrivals arrivals;
    if (forward <= now) arrivals.forward = forward <= backward ? 0 : 1;
    if (backward <= now) arrivals.backward = backward <= forward ? 0 : 1;
    return rule.choose(progress, arrivals);
  }

  ScheduleRule rule;
  BatchProgress progress;
  PassKind operation = PassKind::none;        ///< that it computes
  double end = never;                         ///< of this operation
  std::vector<double> activations, gradients; ///< when the inputs arrive, by microbatch
};

class Simulation {
 public:
  Simulation(const std::vector<PipelineStage>& stages, std::int64_t segments, const StrategySection& strategy,
             const std::vector<double>& slowdowns, const OperationFactor& factor)
      : _stages(stages), _slowdowns(slowdowns), _factor(factor) {
    const int count = static_cast<int>(stages.size());
    for (int i = 0; i < count; ++i)
      _ranks.emplace_back(ScheduleRule(strategy, i, count, segments), segments, i == 0);
  }

  double run() {
    for (;;) {
      for (std::size_t i = 0; i < _ranks.size(); ++i) finish(i);
      for (std::size_t i = 0; i < _ranks.size(); ++i) start(i);
      changePace();
      const double next = nextEvent();
      if (next == never) return _now;
      _now = next;
    }
  }

 private:
  /// The end of an operation, or the arrival of an input that a free rank waits for.
  double nextEvent() const {
    double next = never;
    for (const SimulatedRank& rank : _ranks)
      next = std::min(next, rank.operation == PassKind::none ? rank.nextInput() : rank.end);
    return next;
  }

  /// What is left of all operations takes longer or shorter if more or fewer ranks compute than before.
  void changePace() {
    if (_computing == 0) return;
    const double pace = _slowdowns.empty() ? 1.0 : _slowdowns[_computing],
                 before = std::exchange(_pace, pace);
    if (pace == before) return;
    for (SimulatedRank& rank : _ranks)
      if (rank.operation != PassKind::none) rank.end = _now + (rank.end - _now) * pace / before;
  }

  void start(std::size_t i) {
    SimulatedRank& rank = _ranks[i];
    if (rank.operation != PassKind::none) return;
    rank.operation = rank.next(_now);
    if (rank.operation == PassKind::none) return;
    ++_computing;
    const bool forward = rank.operation == PassKind::forward;
    const std::int64_t segment = forward ? rank.progress.forwards : rank.progress.backwards;
    const double factor = _factor ? _factor(i, rank.operation, segment) : 1.0;
    rank.end = _now + _pace * factor * (forward ? _stages[i].forward : _stages[i].backward);
  }

  void finish(std::size_t i) {
    SimulatedRank& rank = _ranks[i];
    if (rank.operation == PassKind::none || rank.end > _now) return;
    --_computing;
    if (rank.operation == PassKind::backward) {
      const std::int64_t segment = rank.progress.backwards++;
      if (i > 0) _ranks[i - 1].gradients[segment] = _now + _stages[i - 1].message;
    } else {
      const std::int64_t segment = rank.progress.forwards++;
      if (i + 1 < _ranks.size())
        _ranks[i + 1].activations[segment] = _now + _stages[i].message;
      else
        rank.gradients[segment] = _now; // the loss is computed here
    }
    rank.operation = PassKind::none;
  }

  const std::vector<PipelineStage>& _stages;
  const std::vector<double>& _slowdowns;
  const OperationFactor& _factor;
  std::vector<SimulatedRank> _ranks;
  std::size_t _computing = 0;     ///< ranks that compute now
  double _now = 0.0, _pace = 1.0; ///< seconds per second of `_stages`
};

} // namespace

double pipelineSeconds(const std::vector<PipelineStage>& stages, std::int64_t segments,
                       const StrategySection& strategy, const std::vector<double>& slowdowns,
                       const OperationFactor& factor) {
  return Simulation(stages, segments, strategy, slowdowns, factor).run();
}

} // namespace partita
