#include "partita/plan/cost/pipeline_events.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace partita {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr double time_slice = 3e-3; // s: about that of Linux

/// A rank of the pipeline during the simulation.
struct SimulatedRank {
  SimulatedRank(ScheduleRule its_rule, std::size_t its_core, std::int64_t segments, bool first)
      : rule(its_rule), core(its_core), activations(segments, first ? 0.0 : never),
        gradients(segments, never) {}

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
  std::size_t core;
  BatchProgress progress;
  PassKind operation = PassKind::none;        ///< that it computes, or for which it waits for a core
  double left = 0.0;                          ///< of this operation, while it waits for a core
  double end = never, turn_end = never;       ///< of this operation and its turn, while it has a core
  bool keeps_core = false;                    ///< has just finished an operation
  std::vector<double> activations, gradients; ///< when the inputs arrive, by microbatch
};

/// A core of one or more ranks.
struct SimulatedCore {
  bool busy = false;
  std::vector<std::size_t> waiting; ///< ranks that could compute if it were free, in order
};

class Simulation {
 public:
  Simulation(const std::vector<PipelineStage>& stages, std::int64_t segments, const StrategySection& strategy,
             const CoreSharing& sharing, const OperationFactor& factor)
      : _stages(stages), _slowdowns(sharing.slowdowns), _factor(factor),
        _cores(sharing.at_once > 0 ? sharing.at_once : stages.size()), _shared(_cores.size() < stages.size()),
        _due(stages.size(), 0.0) {
    const int count = static_cast<int>(stages.size());
    double work = 0.0, messages = 0.0;
    for (int i = 0; i < count; ++i) {
      _ranks.emplace_back(ScheduleRule(strategy, i, count, segments),
                          static_cast<std::size_t>(i) % _cores.size(), segments, i == 0);
      const auto passes = static_cast<double>(segments);
      work += passes * (stages[i].forward + stages[i].backward + 2.0 * stages[i].copying);
      messages += passes * 2.0 * stages[i].message;
    }
    constexpr double most_turns = 1e5; // more would change little, and take long to simulate
    constexpr double rounding = 1e-12; // a turn must be long enough to be added to the time of the batch
    _turn = std::max({time_slice, work / most_turns, rounding * (work + messages)});
  }

  double run() {
    for (;;) {
      for (std::size_t i = 0; i < _ranks.size(); ++i)
        if (isDue(i)) finish(i);
      for (std::size_t i = 0; i < _ranks.size(); ++i)
        if (isDue(i)) start(i);
      if (_shared) {
        endTurns();
        giveCores();
      }
      changePace();
      const double next = nextEvent();
      if (next == never) return _now;
      _now = next;
    }
  }

 private:
  /// The end of an operation, or the arrival of an input that a free rank waits for.
  static double dueTime(const SimulatedRank& rank) {
    return rank.operation == PassKind::none ? rank.nextInput() : rank.end;
  }
  bool isDue(std::size_t i) const { return !(_due[i] > _now); }

  /// What the next rank has to do, or the end of a turn.
  double nextEvent() const {
    double next = never;
    for (const double due : _due) next = std::min(next, due);
    if (!_shared) return next;
    for (const SimulatedRank& rank : _ranks)
      if (isWanted(rank)) next = std::min(next, rank.turn_end);
    return next;
  }

  /// Does another rank wait for its core?
  bool isWanted(const SimulatedRank& rank) const { return !_cores[rank.core].waiting.empty(); }

  /// What is left of all operations takes longer or shorter if more or fewer ranks compute than before.
  void changePace() {
    if (_computing == 0) return;
    const double pace = _slowdowns.empty() ? 1.0 : _slowdowns[_computing],
                 before = std::exchange(_pace, pace);
    if (pace == before) return;
    for (std::size_t i = 0; i < _ranks.size(); ++i) {
      SimulatedRank& rank = _ranks[i];
      if (rank.end == never) continue;
      rank.end = _now + (rank.end - _now) * pace / before;
      _due[i] = dueTime(rank);
    }
  }

  void start(std::size_t i) {
    SimulatedRank& rank = _ranks[i];
    const bool keeps_core = std::exchange(rank.keeps_core, false);
    if (rank.operation == PassKind::none) begin(i, keeps_core);
    _due[i] = dueTime(rank);
  }

  void begin(std::size_t i, bool keeps_core) {
    SimulatedRank& rank = _ranks[i];
    rank.operation = rank.next(_now);
    if (rank.operation == PassKind::none) {
      rank.turn_end = never;
      return;
    }
    const bool forward = rank.operation == PassKind::forward;
    const std::int64_t segment = forward ? rank.progress.forwards : rank.progress.backwards;
    const double factor = _factor ? _factor(i, rank.operation, segment) : 1.0;
    rank.left = factor * (forward ? _stages[i].forward : _stages[i].backward) + copyingBefore(i, forward);
    if (keeps_core || !_shared)
      compute(i);
    else
      _cores[rank.core].waiting.push_back(i);
  }

  /// Seconds in which the rank copies the input of an operation.
  double copyingBefore(std::size_t i, bool forward) const {
    if (forward) return i > 0 ? _stages[i - 1].copying : 0.0;
    return i + 1 < _stages.size() ? _stages[i].copying : 0.0;
  }

  /// When a message that is sent now between two ranks waits for the second one to copy it.
  double arrival(const PipelineStage& first) const { return _now + first.message - first.copying; }

  void compute(std::size_t i) {
    SimulatedRank& rank = _ranks[i];
    ++_computing;
    _cores[rank.core].busy = true;
    rank.end = _now + _pace * rank.left;
    _due[i] = dueTime(rank);
  }

  void leaveCore(std::size_t i) {
    SimulatedRank& rank = _ranks[i];
    --_computing;
    _cores[rank.core].busy = false;
    rank.end = never;
    _due[i] = dueTime(rank);
  }

  void endTurns() {
    for (std::size_t i = 0; i < _ranks.size(); ++i) {
      SimulatedRank& rank = _ranks[i];
      if (rank.turn_end > _now || !isWanted(rank)) continue;
      rank.left = (rank.end - _now) / _pace;
      rank.turn_end = never;
      leaveCore(i);
      _cores[rank.core].waiting.push_back(i);
    }
  }

  void giveCores() {
    for (SimulatedCore& core : _cores) {
      if (core.busy || core.waiting.empty()) continue;
      const std::size_t first = core.waiting.front();
      core.waiting.erase(core.waiting.begin());
      _ranks[first].turn_end = _now + _turn;
      compute(first);
    }
  }

  void finish(std::size_t i) {
    SimulatedRank& rank = _ranks[i];
    if (rank.operation == PassKind::none || rank.end > _now) return;
    leaveCore(i);
    if (rank.operation == PassKind::backward) {
      const std::int64_t segment = rank.progress.backwards++;
      if (i > 0) deliver(i - 1, _ranks[i - 1].gradients[segment], arrival(_stages[i - 1]));
    } else {
      const std::int64_t segment = rank.progress.forwards++;
      if (i + 1 < _ranks.size())
        deliver(i + 1, _ranks[i + 1].activations[segment], arrival(_stages[i]));
      else
        rank.gradients[segment] = _now; // the loss is computed here
    }
    rank.operation = PassKind::none;
    rank.keeps_core = true;
    _due[i] = _now; // to start again
  }

  /// Rank `i` may already be due now, after an operation of its own.
  void deliver(std::size_t i, double& input, double time) {
    input = time;
    _due[i] = std::min(_due[i], dueTime(_ranks[i]));
  }

  const std::vector<PipelineStage>& _stages;
  const std::vector<double>& _slowdowns;
  const OperationFactor& _factor;
  std::vector<SimulatedCore> _cores;
  bool _shared; ///< does any core have several ranks?
  std::vector<SimulatedRank> _ranks;
  std::vector<double> _due;       ///< when each rank next has something to do: one look at each is fast
  std::size_t _computing = 0;     ///< ranks that compute now
  double _now = 0.0, _pace = 1.0; ///< seconds per second of `_stages`
  double _turn = time_slice;      ///< s: of a rank on a core that others wait for
};

} // namespace

double pipelineSeconds(const std::vector<PipelineStage>& stages, std::int64_t segments,
                       const StrategySection& strategy, const CoreSharing& sharing,
                       const OperationFactor& factor) {
  return Simulation(stages, segments, strategy, sharing, factor).run();
}

} // namespace partita
