#include "partita/plan/schedule/schedule_model.hpp"

#include "partita/plan/schedule/bit_set.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace partita::detail {

namespace {

bool isSet(double value) {
  return value > 0.5;
}

/// Cores of one kind. Operators have no columns for them if there are enough cores, or only one.
struct CorePool {
  explicit CorePool(int count) : free(count, 0.0) {}

  int next() { return std::min(used++, static_cast<int>(free.size()) - 1); }

  std::vector<double> free; ///< when each becomes free
  int used = 0;
};

} // namespace

ScheduleModel::ScheduleModel(const ScheduleTask& task, const OperatorSchedule& known)
    : _graph(task), _known(known), _scale(known.makespan), _columns(_graph.size), _heads(_graph.size, 0.0) {
  for (std::size_t i = 0; i < _graph.size; ++i)
    for (const int before : _graph.before[i])
      _heads[i] = std::max(_heads[i], _heads[before] + _graph.fastest(before) / _scale);
  _makespan = _model.addColumn(1.0, 0.0, 1.0, false);
  addOperators();
  addCores();
  addPrecedence();
  addPairs();
  addEnergy();
}

/// An operator that is not faster on all cores has one mode.
void ScheduleModel::addOperators() {
  for (std::size_t i = 0; i < _graph.size; ++i) {
    Columns& own = _columns[i];
    const double latest = 1.0 - _graph.tails[i] / _scale;
    own.start = _model.addColumn(0.0, _heads[i], std::max(_heads[i], latest), false);
    if (_graph.operators[i].intra_op_latency < _graph.operators[i].latency)
      own.all_cores = _model.addBinary();
  }
}

void ScheduleModel::addEnd(int later, std::size_t op, double more, int only_if, double slack) {
  const Operator& own = _graph.operators[op];
  std::vector<MipModel::Term> terms{{later, 1.0}, {_columns[op].start, -1.0}};
  if (_columns[op].all_cores >= 0)
    terms.emplace_back(_columns[op].all_cores, (own.latency - own.intra_op_latency) / _scale);
  if (only_if >= 0) terms.emplace_back(only_if, -slack);
  _model.addRow(own.latency / _scale + more - slack, terms, no_limit);
}

/// An operator gets one core of each kind that it needs, unless it is on all cores. With fused operators the
/// numbers of cores matter; otherwise there must only be enough, and equal cores may be used in any order.
void ScheduleModel::addCores() {
  const bool fused = std::any_of(_graph.operators.begin(), _graph.operators.end(),
                                 [](const Operator& op) { return op.type == CoreType::both; });
  for (const bool tensor : {true, false}) {
    const int cores = tensor ? _graph.tensor_cores : _graph.vector_cores;
    int users = 0;
    for (std::size_t i = 0; i < _graph.size; ++i) users += _graph.uses(i, tensor) ? 1 : 0;
    if (!fused && (cores == 1 || users <= cores)) continue;
    for (std::size_t i = 0; i < _graph.size; ++i) {
      if (!_graph.uses(i, tensor)) continue;
      Columns& own = _columns[i];
      const bool pair = _graph.operators[i].type == CoreType::both;
      if (pair && !tensor) {
        own.vector = own.tensor;
        continue;
      }
      std::vector<int>& columns = tensor ? own.tensor : own.vector;
      const int choices = pair ? std::min(_graph.tensor_cores, _graph.vector_cores) : cores;
      std::vector<MipModel::Term> one;
      for (int core = 0; core < choices; ++core) {
        columns.push_back(_model.addBinary());
        one.emplace_back(columns.back(), 1.0);
      }
      if (own.all_cores >= 0) one.emplace_back(own.all_cores, 1.0);
      _model.addRow(1.0, one, 1.0);
    }
  }
}

void ScheduleModel::addPrecedence() {
  for (std::size_t i = 0; i < _graph.size; ++i) {
    addEnd(_makespan, i, (_graph.tails[i] - _graph.fastest(i)) / _scale);
    for (const int after : _graph.after[i]) addEnd(_columns[after].start, i, 0.0);
  }
}

/// Two operators on the same core need an order.
void ScheduleModel::addCommonCores(const Pair& pair, const std::vector<int>& first,
                                   const std::vector<int>& second) {
  for (std::size_t core = 0; core < std::min(first.size(), second.size()); ++core)
    _model.addRow(-1.0, {{pair.forward, 1.0}, {pair.back, 1.0}, {first[core], -1.0}, {second[core], -1.0}},
                  no_limit);
}

void ScheduleModel::addPairs() {
  std::vector<BitSet> ancestors(_graph.size, BitSet(_graph.size));
  for (std::size_t i = 0; i < _graph.size; ++i)
    for (const int before : _graph.before[i]) {
      ancestors[i].addAll(ancestors[before]);
      ancestors[i].add(before);
    }
  const auto add_order = [&](int first, int second, int column) {
    const double latest_end = 1.0 - (_graph.tails[first] - _graph.fastest(first)) / _scale;
    addEnd(_columns[second].start, first, 0.0, column, std::max(0.0, latest_end - _heads[second]));
  };
  for (int j = 0; j < static_cast<int>(_graph.size); ++j) {
    for (int i = 0; i < j; ++i) {
      if (ancestors[j].has(i)) continue;
      const Pair pair{i, j, _model.addBinary(), _model.addBinary()};
      add_order(i, j, pair.forward);
      add_order(j, i, pair.back);
      bool apart = false; // both need the only core of a kind
      for (const bool tensor : {true, false})
        apart = apart || ((tensor ? _graph.tensor_cores : _graph.vector_cores) == 1 &&
                          _graph.uses(i, tensor) && _graph.uses(j, tensor));
      _model.addRow(apart ? 1.0 : 0.0, {{pair.forward, 1.0}, {pair.back, 1.0}}, 1.0);
      if (!apart) {
        for (const int op : {i, j})
          if (_columns[op].all_cores >= 0)
            _model.addRow(0.0, {{pair.forward, 1.0}, {pair.back, 1.0}, {_columns[op].all_cores, -1.0}},
                          no_limit);
        addCommonCores(pair, _columns[i].tensor, _columns[j].tensor);
        addCommonCores(pair, _columns[i].vector, _columns[j].vector);
      }
      _pairs.push_back(pair);
    }
  }
}

void ScheduleModel::addEnergy() {
  for (const ComponentGraph::Energy& energy : _graph.energies) {
    std::vector<MipModel::Term> terms{{_makespan, 1.0}};
    double least = 0.0;
    for (std::size_t i = 0; i < _graph.size; ++i) {
      const Operator& op = _graph.operators[i];
      const double weight =
          (_graph.uses(i, true) ? energy.tensor : 0.0) + (_graph.uses(i, false) ? energy.vector : 0.0);
      const double alone = weight * op.latency / _scale;
      least += alone;
      if (_columns[i].all_cores >= 0)
        terms.emplace_back(_columns[i].all_cores, alone - op.intra_op_latency / _scale);
    }
    _model.addRow(least, terms, no_limit);
  }
}

std::vector<double> ScheduleModel::start() const {
  std::vector<double> values(_model.cost.size(), 0.0);
  values[_makespan] = 1.0;
  for (std::size_t i = 0; i < _graph.size; ++i) {
    const Columns& own = _columns[i];
    values[own.start] = known(i).start / _scale;
    if (own.all_cores >= 0) values[own.all_cores] = known(i).all_cores ? 1.0 : 0.0;
    if (known(i).all_cores) continue;
    if (!own.tensor.empty()) values[own.tensor[known(i).tensor_core]] = 1.0;
    if (!own.vector.empty()) values[own.vector[known(i).vector_core]] = 1.0;
  }
  for (const Pair& pair : _pairs) {
    const bool forward = known(pair.first).end <= known(pair.second).start;
    values[pair.forward] = forward ? 1.0 : 0.0;
    values[pair.back] = !forward && known(pair.second).end <= known(pair.first).start ? 1.0 : 0.0;
  }
  return values;
}

/// Operators in the order of their starts, each after those that must precede it by the graph or by the
/// columns of pairs.
std::vector<int> ScheduleModel::orderOf(const std::vector<double>& values) const {
  std::vector<std::vector<int>> after = _graph.after;
  for (const Pair& pair : _pairs) {
    if (isSet(values[pair.forward])) after[pair.first].push_back(pair.second);
    if (isSet(values[pair.back])) after[pair.second].push_back(pair.first);
  }
  std::vector<int> missing(_graph.size, 0), order;
  std::vector<char> done(_graph.size, 0);
  for (const std::vector<int>& next : after)
    for (const int op : next) ++missing[op];
  while (order.size() < _graph.size) {
    int best = -1;
    // Pairs of operators without duration may form a cycle, which any order resolves.
    const auto worse = [&](int a, int b) {
      return std::make_pair(missing[a], values[_columns[a].start]) >
             std::make_pair(missing[b], values[_columns[b].start]);
    };
    for (int i = 0; i < static_cast<int>(_graph.size); ++i) {
      const bool ready = std::all_of(_graph.before[i].begin(), _graph.before[i].end(),
                                     [&](int before) { return done[before] != 0; });
      if (done[i] == 0 && ready && (best < 0 || worse(best, i))) best = i;
    }
    done[best] = 1;
    order.push_back(best);
    for (const int next : after[best]) --missing[next];
  }
  return order;
}

OperatorSchedule ScheduleModel::schedule(const std::vector<double>& values) const {
  const auto chosen = [&](const std::vector<int>& columns) {
    const auto larger = [&](int a, int b) { return values[a] < values[b]; };
    return static_cast<int>(std::max_element(columns.begin(), columns.end(), larger) - columns.begin());
  };
  OperatorSchedule schedule;
  schedule.operators.resize(_graph.size);
  CorePool tensor(_graph.tensor_cores), vector(_graph.vector_cores);
  double all_free = 0.0;
  for (const int i : orderOf(values)) {
    const Operator& op = _graph.operators[i];
    const Columns& own = _columns[i];
    ScheduledOperator& placed = schedule.operators[_graph.positions[i]];
    placed.all_cores = own.all_cores >= 0 && isSet(values[own.all_cores]);
    placed.start = placed.all_cores ? schedule.makespan : all_free;
    for (const int before : _graph.before[i])
      placed.start = std::max(placed.start, schedule.operators[_graph.positions[before]].end);
    if (!placed.all_cores && _graph.uses(i, true)) {
      placed.tensor_core = own.tensor.empty() ? tensor.next() : chosen(own.tensor);
      placed.start = std::max(placed.start, tensor.free[placed.tensor_core]);
    }
    if (!placed.all_cores && _graph.uses(i, false)) {
      placed.vector_core = own.vector.empty() ? vector.next() : chosen(own.vector);
      placed.start = std::max(placed.start, vector.free[placed.vector_core]);
    }
    placed.end = placed.start + (placed.all_cores ? op.intra_op_latency : op.latency);
    if (placed.all_cores) all_free = placed.end;
    if (placed.tensor_core >= 0) tensor.free[placed.tensor_core] = placed.end;
    if (placed.vector_core >= 0) vector.free[placed.vector_core] = placed.end;
    schedule.makespan = std::max(schedule.makespan, placed.end);
  }
  return schedule;
}

OperatorSchedule solveComponent(const ScheduleTask& task, const MipSolver& solver, Deadline deadline) {
  constexpr double gap = 1e-6, tolerance = 1e-6; // of the solver; the makespan of the model is about 1
  const auto left = [deadline] {
    return deadline == Deadline::max()
               ? std::numeric_limits<double>::infinity()
               : std::chrono::duration<double>(deadline - Deadline::clock::now()).count();
  };
  OperatorSchedule best = searchComponent(task, deadline, 1);
  if (task.operators.size() == 1 || best.makespan == 0.0 || left() <= 0.0) return best;
  const ScheduleModel model(task, best);
  const double seconds = left();
  if (seconds <= 0.0) return best;
  const MipAnswer answer = solver(model.model(), model.start(), gap, seconds);
  const double bound = std::max(best.lower_bound, model.makespan(answer.bound - tolerance));
  if (!answer.values.empty()) {
    OperatorSchedule found = model.schedule(answer.values);
    if (found.makespan < best.makespan) best = std::move(found);
  }
  best.lower_bound = std::min(bound, best.makespan);
  return best;
}

} // namespace partita::detail
