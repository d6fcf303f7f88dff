#include "partita/plan/schedule/component_search.hpp"

#include "partita/plan/schedule/partial_schedule.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace partita::detail {

namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();

/// A partial schedule, its bound and its last step.
struct Node {
  PartialSchedule schedule;
  double bound = 0.0;
  std::ptrdiff_t step = -1; ///< in the list of all steps
};

/// A move and the one before it. A level of the search keeps only the ends of its schedules.
struct Step {
  Move move;
  std::ptrdiff_t previous = -1;
};

class Search {
 public:
  /// Starts from two simple schedules. In one, operators follow one another, each in its fastest mode. In the
  /// other, each runs on one core as early as possible, those with the longest path to the end first.
  Search(const ComponentGraph& graph, Deadline deadline);

  /// Searches with at most `width` schedules per level. Returns whether nothing was left out.
  bool pass(std::size_t width);
  bool late() const { return _late; }
  double lowerBound() const { return std::min(_lower, _makespan); }
  const std::vector<Move>& best() const { return _best; }

 private:
  void startSerially();
  void startGreedily();
  /// Adds a schedule to the level, unless another of the same operators dominates it.
  void enter(Node node, const Step& step, std::size_t width);
  void expand(const Node& node, std::size_t width);
  void complete(const PartialSchedule& schedule, const Step& last);
  void leaveOut(double bound) { _left_out = std::min(_left_out, bound); }
  void shorten(std::size_t width);
  bool hopeless(double bound) const { return bound >= _makespan * (1.0 - 1e-12); }

  const ComponentGraph& _graph;
  Deadline _deadline;
  bool _late = false;
  double _makespan = 0.0, _lower = 0.0;
  double _left_out = unbounded; ///< the smallest bound that this pass has left out
  std::vector<Move> _best;
  std::vector<Step> _steps;
  std::vector<Node> _level;
  std::unordered_map<BitSet, std::vector<std::size_t>, BitSet::Hash> _same; ///< operators -> level
};

Search::Search(const ComponentGraph& graph, Deadline deadline) : _graph(graph), _deadline(deadline) {
  startSerially();
  startGreedily();
}

void Search::startSerially() {
  for (std::size_t i = 0; i < _graph.size; ++i) {
    const bool all_cores = _graph.operators[i].intra_op_latency < _graph.operators[i].latency;
    const double end = _makespan + _graph.fastest(i);
    _best.push_back({static_cast<int>(i), all_cores, -1, -1, _makespan, end});
    _makespan = end;
  }
}

void Search::startGreedily() {
  const auto worse = [&](const Move& a, const Move& b) {
    if (a.all_cores != b.all_cores) return a.all_cores;
    return a.start != b.start ? a.start > b.start : _graph.tails[a.op] < _graph.tails[b.op];
  };
  PartialSchedule schedule(_graph);
  std::vector<Move> moves;
  while (schedule.count() < _graph.size) {
    if (std::chrono::steady_clock::now() > _deadline) return; // the serial schedule stands
    const std::vector<Move> next = schedule.moves(_graph);
    moves.push_back(*std::max_element(next.begin(), next.end(), worse));
    schedule = schedule.after(_graph, moves.back());
  }
  if (schedule.makespan() >= _makespan) return;
  _makespan = schedule.makespan();
  _best = std::move(moves);
}

void Search::complete(const PartialSchedule& schedule, const Step& last) {
  if (schedule.makespan() >= _makespan) return;
  _makespan = schedule.makespan();
  _best = {last.move};
  for (std::ptrdiff_t step = last.previous; step >= 0; step = _steps[step].previous)
    _best.push_back(_steps[step].move);
  std::reverse(_best.begin(), _best.end());
}

void Search::enter(Node node, const Step& step, std::size_t width) {
  std::vector<std::size_t>& same = _same[node.schedule.placed()];
  for (const std::size_t other : same)
    if (_level[other].schedule.dominates(node.schedule)) return;
  node.step = static_cast<std::ptrdiff_t>(_steps.size());
  _steps.push_back(step);
  for (const std::size_t other : same) {
    if (node.schedule.dominates(_level[other].schedule)) {
      _level[other] = std::move(node); // others that it dominates remain, which only costs time
      return;
    }
  }
  same.push_back(_level.size());
  _level.push_back(std::move(node));
  if (_level.size() < 4 * width) return;
  shorten(width); // a level takes memory
  _same.clear();
  for (std::size_t i = 0; i < _level.size(); ++i) _same[_level[i].schedule.placed()].push_back(i);
}

void Search::expand(const Node& node, std::size_t width) {
  for (const Move& move : node.schedule.moves(_graph)) {
    Node next{node.schedule.after(_graph, move), 0.0, -1};
    next.bound = std::max(node.bound, next.schedule.bound(_graph));
    if (hopeless(next.bound)) {
      leaveOut(next.bound);
    } else if (next.schedule.count() == _graph.size) {
      complete(next.schedule, {move, node.step});
    } else {
      enter(std::move(next), {move, node.step}, width);
    }
  }
}

/// Keeps the schedules with the smallest bounds, in an order that does not depend on the hash table.
void Search::shorten(std::size_t width) {
  const auto smaller = [](const Node& a, const Node& b) {
    return a.bound != b.bound ? a.bound < b.bound : a.step < b.step;
  };
  std::sort(_level.begin(), _level.end(), smaller);
  while (!_level.empty() && (_level.size() > width || hopeless(_level.back().bound))) {
    leaveOut(_level.back().bound);
    _level.pop_back();
  }
}

bool Search::pass(std::size_t width) {
  _steps.clear();
  _left_out = unbounded;
  const PartialSchedule empty(_graph);
  _level = {{empty, empty.bound(_graph), -1}};
  while (!_level.empty()) {
    std::vector<Node> level;
    level.swap(_level);
    _same.clear();
    for (const Node& node : level) {
      _late = _late || std::chrono::steady_clock::now() > _deadline;
      _late ? leaveOut(node.bound) : expand(node, width);
    }
    shorten(width);
  }
  _lower = std::max(_lower, _left_out);
  return _lower >= _makespan * (1.0 - 1e-12);
}

/// Cores of one kind, each with the end of its last operator.
class Cores {
 public:
  /// Gives core `wanted` to an operator, or the first free core if `wanted` is -1.
  int take(int wanted, double start, double end) {
    std::size_t core = wanted;
    if (wanted < 0) {
      core = 0;
      while (core < _ends.size() && _ends[core] > start) ++core;
    }
    if (core >= _ends.size()) _ends.resize(core + 1, 0.0);
    _ends[core] = end;
    return static_cast<int>(core);
  }

 private:
  std::vector<double> _ends;
};

/// The schedule of these moves. Moves without core numbers get free cores: there are always enough.
OperatorSchedule scheduleOf(const ComponentGraph& graph, const std::vector<Move>& moves) {
  OperatorSchedule schedule;
  schedule.operators.resize(graph.size);
  Cores tensor, vector;
  for (const Move& move : moves) {
    ScheduledOperator& op = schedule.operators[graph.positions[move.op]];
    op = {move.start, move.end, move.all_cores, -1, -1};
    if (!move.all_cores && graph.uses(move.op, true))
      op.tensor_core = tensor.take(move.tensor_core, move.start, move.end);
    if (!move.all_cores && graph.uses(move.op, false))
      op.vector_core = vector.take(move.vector_core, move.start, move.end);
    schedule.makespan = std::max(schedule.makespan, move.end);
  }
  return schedule;
}

} // namespace

OperatorSchedule searchComponent(const ScheduleTask& task, Deadline deadline, std::size_t most_width) {
  const ComponentGraph graph(task);
  Search search(graph, deadline);
  // A level and all steps to it take about this many bytes per schedule.
  constexpr std::size_t most_bytes = std::size_t{1} << 29;
  std::size_t last_width = most_bytes / (400 + 160 * graph.size);
  if (most_width > 0) last_width = std::min(last_width, most_width);
  for (std::size_t width = 1; width <= last_width; width *= 8)
    if (search.pass(width) || search.late()) break;

  OperatorSchedule schedule = scheduleOf(graph, search.best());
  schedule.lower_bound = search.lowerBound();
  return schedule;
}

} // namespace partita::detail
