#include "partita/plan/cost/pipeline_events.hpp"

#include <algorithm>
#include <limits>

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
  double nextStart() const { return std::max(free, std::min(forwardInput(), backwardInput())); }

  /// What it does at that time.
  PassKind next() const {
    const double now = nextStart(), forward = forwardInput(), backward = backwardInput();
    Arrivals arrivals;
    if (forward <= now) arrivals.forward = forward <= backward ? 0 : 1;
    if (backward <= now) arrivals.backward = backward <= forward ? 0 : 1;
    return rule.choose(progress, arrivals);
  }

  ScheduleRule rule;
  BatchProgress progress;
  double free = 0.0;                          ///< end of its last operation
  std::vector<double> activations, gradients; ///< when the inputs arrive, by microbatch
};

class Simulation {
 public:
  Simulation(const std::vector<PipelineStage>& stages, std::int64_t segments, const StrategySection& strategy,
             const OperationFactor& factor)
      : _stages(stages), _factor(factor) {
    const int count = static_cast<int>(stages.size());
    for (int i = 0; i < count; ++i)
      _ranks.emplace_back(ScheduleRule(strategy, i, count, segments), segments, i == 0);
  }

  /// The rank that can start first goes first, since operations of others that start later also send later.
  double run() {
    for (;;) {
      const auto next = std::min_element(_ranks.begin(), _ranks.end(), [](const auto& a, const auto& b) {
        return a.nextStart() < b.nextStart();
      });
      if (next->nextStart() == never) break;
      operate(next - _ranks.begin());
    }
    double end = 0.0;
    for (const SimulatedRank& rank : _ranks) end = std::max(end, rank.free);
    return end;
  }

 private:
  void operate(std::size_t i) {
    SimulatedRank& rank = _ranks[i];
    const PassKind operation = rank.next();
    const bool forward = operation == PassKind::forward;
    std::int64_t& done = forward ? rank.progress.forwards : rank.progress.backwards;
    const std::size_t segment = done++;
    const double input = forward ? rank.activations[segment] : rank.gradients[segment],
                 seconds = forward ? _stages[i].forward : _stages[i].backward,
                 factor = _factor ? _factor(i, operation, static_cast<std::int64_t>(segment)) : 1.0;
    rank.free = std::max(rank.free, input) + factor * seconds;
    if (!forward) {
      if (i > 0) _ranks[i - 1].gradients[segment] = rank.free + _stages[i - 1].message;
    } else if (i + 1 < _ranks.size()) {
      _ranks[i + 1].activations[segment] = rank.free + _stages[i].message;
    } else {
      rank.gradients[segment] = rank.free; // the loss is computed here
    }
  }

  const std::vector<PipelineStage>& _stages;
  const OperationFactor& _factor;
  std::vector<SimulatedRank> _ranks;
};

} // namespace

double pipelineSeconds(const std::vector<PipelineStage>& stages, std::int64_t segments,
                       const StrategySection& strategy, const OperationFactor& factor) {
  return Simulation(stages, segments, strategy, factor).run();
}

} // namespace partita
