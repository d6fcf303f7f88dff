#include "partita/plan/schedule/partial_schedule.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace partita::detail {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// Leaves out moves that start after another move could have ended: placing the other one first delays
/// nothing.
void keepActive(std::vector<Move>& moves) {
  const auto first = std::min_element(moves.begin(), moves.end(),
                                      [](const Move& a, const Move& b) { return a.end < b.end; });
  if (first == moves.end()) return;
  const Move earliest = *first;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const bool itself = &moves[i] == &*first;
    if (itself || moves[i].start < earliest.end) moves[kept++] = moves[i];
  }
  moves.resize(kept);
}

} // namespace

PartialSchedule::PartialSchedule(const ComponentGraph& graph) : _placed(graph.size), _ends(graph.size, 0.0) {
  for (const Operator& op : graph.operators) _fused_left += op.type == CoreType::both ? 1 : 0;
  _cores.resize(_fused_left > 0 ? std::max(graph.tensor_cores, graph.vector_cores) : 0);
  for (int c = 0; c < static_cast<int>(_cores.size()); ++c)
    _cores[c] = {c < graph.tensor_cores ? 0.0 : never, c < graph.vector_cores ? 0.0 : never};
  settle(graph);
}

double PartialSchedule::makespan() const {
  return std::max(_now, *std::max_element(_ends.begin(), _ends.end()));
}

double PartialSchedule::coresFree(const ComponentGraph& graph, bool tensor) const {
  const std::size_t cores = tensor ? graph.tensor_cores : graph.vector_cores;
  std::vector<double> busy;
  for (std::size_t i = 0; i < graph.size; ++i)
    if (_ends[i] > _now && graph.uses(i, tensor)) busy.push_back(_ends[i]);
  if (busy.size() < cores) return _now;
  std::nth_element(busy.begin(), busy.begin() + static_cast<std::ptrdiff_t>(cores - 1), busy.end(),
                   std::greater<>());
  return busy[cores - 1];
}

std::vector<PartialSchedule::FreeCores> PartialSchedule::choices(const ComponentGraph& graph) const {
  if (_fused_left == 0) return {{-1, coresFree(graph, true), coresFree(graph, false)}};
  std::vector<FreeCores> choices;
  for (std::size_t c = 0; c < _cores.size(); ++c) {
    const CorePair& pair = _cores[c];
    const bool known = std::any_of(choices.begin(), choices.end(), [&](const FreeCores& other) {
      return other.tensor == pair.first && other.vector == pair.second;
    });
    if (!known) choices.push_back({static_cast<int>(c), pair.first, pair.second});
  }
  return choices;
}

double PartialSchedule::readyTime(const ComponentGraph& graph, std::size_t op) const {
  double ready = _now;
  for (const int before : graph.before[op])
    ready = _placed.has(before) ? std::max(ready, _ends[before]) : never;
  return ready;
}

std::vector<Move> PartialSchedule::moves(const ComponentGraph& graph) const {
  const std::vector<FreeCores> choices = this->choices(graph);
  const double last = makespan();
  std::vector<Move> found;
  for (std::size_t i = 0; i < graph.size; ++i) {
    const double ready = _placed.has(i) ? never : readyTime(graph, i);
    if (ready == never) continue;
    const Operator& op = graph.operators[i];
    const bool tensor = graph.uses(i, true), vector = graph.uses(i, false);
    for (const FreeCores& free : choices) {
      const double start = std::max({ready, tensor ? free.tensor : 0.0, vector ? free.vector : 0.0});
      const Move move{static_cast<int>(i),       false, tensor ? free.number : -1,
                      vector ? free.number : -1, start, start + op.latency};
      if (start < never) found.push_back(move);
    }
    if (op.intra_op_latency < op.latency)
      found.push_back({static_cast<int>(i), true, -1, -1, last, last + op.intra_op_latency});
  }
  keepActive(found);
  return found;
}

PartialSchedule PartialSchedule::after(const ComponentGraph& graph, const Move& move) const {
  PartialSchedule next = *this;
  next._placed.add(move.op);
  ++next._count;
  next._now = move.all_cores ? move.end : move.start;
  next._ends[move.op] = move.end;
  if (graph.operators[move.op].type == CoreType::both) --next._fused_left;
  if (move.tensor_core >= 0) next._cores[move.tensor_core].first = move.end;
  if (move.vector_core >= 0) next._cores[move.vector_core].second = move.end;
  next.settle(graph);
  return next;
}

/// When the cores of a kind become free, in descending order.
void PartialSchedule::coreTimes(const ComponentGraph& graph, bool tensor) {
  const std::size_t cores = tensor ? graph.tensor_cores : graph.vector_cores, begin = _profile.size();
  for (std::size_t i = 0; i < graph.size; ++i)
    if (_ends[i] > _now && graph.uses(i, tensor)) _profile.push_back(_ends[i]);
  std::sort(_profile.begin() + static_cast<std::ptrdiff_t>(begin), _profile.end(), std::greater<>());
  _profile.resize(begin + cores, _now);
}

/// Operators that constrain later ones only through `now` count as ended at 0.
void PartialSchedule::settle(const ComponentGraph& graph) {
  for (double& end : _ends)
    if (end <= _now) end = 0.0;
  if (_fused_left == 0) _cores.clear();
  _profile = {_now};
  for (std::size_t i = 0; i < graph.size; ++i) {
    const std::vector<int>& later = graph.after[i];
    const bool matters = _placed.has(i) && std::any_of(later.begin(), later.end(),
                                                       [&](int next) { return !_placed.has(next); });
    if (matters) _profile.push_back(std::max(_ends[i], _now));
  }
  if (_fused_left == 0) {
    coreTimes(graph, true);
    coreTimes(graph, false);
    return;
  }
  for (auto& [tensor, vector] : _cores) {
    tensor = std::max(tensor, _now);
    vector = std::max(vector, _now);
  }
  std::vector<CorePair> cores = _cores; // their numbers do not matter
  std::sort(cores.begin(), cores.end());
  for (const auto& [tensor, vector] : cores) {
    _profile.push_back(tensor);
    _profile.push_back(vector);
  }
}

double PartialSchedule::bound(const ComponentGraph& graph) const {
  double path = makespan();
  std::vector<double> heads(graph.size);
  for (std::size_t i = 0; i < graph.size; ++i) {
    if (_placed.has(i)) {
      heads[i] = std::max(_now, _ends[i]);
      continue;
    }
    double ready = _now;
    for (const int before : graph.before[i]) ready = std::max(ready, heads[before]);
    heads[i] = ready + graph.fastest(i);
    path = std::max(path, ready + graph.tails[i]);
  }
  for (const ComponentGraph::Energy& energy : graph.energies) {
    double total = _now;
    for (std::size_t i = 0; i < graph.size; ++i) {
      if (!_placed.has(i)) {
        total += energy.least[i];
      } else if (_ends[i] > _now) {
        const double weight =
            (graph.uses(i, true) ? energy.tensor : 0.0) + (graph.uses(i, false) ? energy.vector : 0.0);
        total += weight * (_ends[i] - _now);
      }
    }
    path = std::max(path, total);
  }
  return path;
}

bool PartialSchedule::dominates(const PartialSchedule& other) const {
  return std::equal(_profile.begin(), _profile.end(), other._profile.begin(), std::less_equal<>());
}

} // namespace partita::detail
