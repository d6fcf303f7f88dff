#include "partita/plan/schedule/operator_schedule.hpp"

#include "partita/config/user_error.hpp"
#include "partita/plan/schedule/bit_set.hpp"
#include "partita/plan/schedule/component_search.hpp"
#include "partita/plan/schedule/schedule_cache.hpp"
#include "partita/plan/schedule/schedule_model.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace partita {

namespace {

/// For each operator, the operators that must end before it starts. The graph has no cycles.
std::vector<BitSet> ancestorsOf(const ScheduleTask& task) {
  const std::size_t count = task.operators.size();
  std::vector<std::vector<int>> after(count);
  std::vector<int> missing(count, 0), order;
  for (const auto& [from, to] : task.edges) {
    after[from].push_back(to);
    ++missing[to];
  }
  for (std::size_t i = 0; i < count; ++i)
    if (missing[i] == 0) order.push_back(static_cast<int>(i));
  std::vector<BitSet> ancestors(count, BitSet(count));
  for (std::size_t next = 0; next < order.size(); ++next) {
    const int from = order[next];
    for (const int to : after[from]) {
      ancestors[to].addAll(ancestors[from]);
      ancestors[to].add(from);
      if (--missing[to] == 0) order.push_back(to);
    }
  }
  return ancestors;
}

/// Two operators are joined if neither must precede the other. Each connected component of this graph ends
/// before the next one starts, whatever the schedule. Components are returned in this order.
std::vector<std::vector<int>> componentsOf(const ScheduleTask& task) {
  const std::vector<BitSet> ancestors = ancestorsOf(task);
  const int count = static_cast<int>(task.operators.size());
  std::vector<int> root(count);
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](int i) {
    while (root[i] != i) i = root[i] = root[root[i]];
    return i;
  };
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < i; ++j)
      if (!ancestors[i].has(j) && !ancestors[j].has(i)) root[find(i)] = find(j);

  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::size_t> depth; // grows from component to component
  depth.reserve(ancestors.size());
  for (const BitSet& set : ancestors) depth.push_back(set.count());
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return depth[a] < depth[b]; });
  std::vector<std::vector<int>> components;
  std::vector<int> place(count, -1);
  for (const int i : order) {
    int& own = place[find(i)];
    if (own < 0) {
      own = static_cast<int>(components.size());
      components.emplace_back();
    }
    components[own].push_back(i);
  }
  return components;
}

/// The parts of the task that consist of the operators of each component.
std::vector<ScheduleTask> partsOf(const ScheduleTask& task, const std::vector<std::vector<int>>& components) {
  std::vector<ScheduleTask> parts(components.size());
  std::vector<std::pair<std::size_t, int>> place(task.operators.size()); // component, position in it
  for (std::size_t c = 0; c < components.size(); ++c) {
    parts[c].tensor_cores = task.tensor_cores;
    parts[c].vector_cores = task.vector_cores;
    for (const int i : components[c]) {
      place[i] = {c, static_cast<int>(parts[c].operators.size())};
      parts[c].operators.push_back(task.operators[i]);
    }
  }
  for (const auto& [from, to] : task.edges)
    if (place[from].first == place[to].first)
      parts[place[from].first].edges.emplace_back(place[from].second, place[to].second);
  return parts;
}

detail::MipSolver solverOf(ScheduleEngine engine) {
#ifdef PARTITA_HAVE_HIGHS
  if (engine == ScheduleEngine::highs) return detail::solveWithHighs;
#endif
#ifdef PARTITA_HAVE_CBC
  if (engine == ScheduleEngine::cbc) return detail::solveWithCbc;
#endif
  throw UserError("this build has no engine '" + nameOf(engine) + "'; it was configured without it");
}

constexpr double ever = 1e8; // seconds; the clock cannot hold much longer times

/// One call of scheduleOperators.
class ComponentScheduler {
 public:
  explicit ComponentScheduler(const ScheduleOptions& options) : _options(options) {
    if (options.seconds < ever)
      _deadline =
          std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                 std::chrono::duration<double>(options.seconds));
    if (options.engine != ScheduleEngine::built_in) _solver = solverOf(options.engine);
  }

  OperatorSchedule operator()(const ScheduleTask& part) const {
    if (_options.cache == nullptr) return solve(part);
    const ScheduleCache::Key key = ScheduleCache::keyOf(part, _options);
    const std::optional<OperatorSchedule> known = _options.cache->find(key);
    if (known && faultOf(part, *known).empty()) return *known;
    const OperatorSchedule found = solve(part);
    // Above the gap requested from solvers; the own search has either proven its schedule or is cut short.
    const double proven = _options.engine == ScheduleEngine::built_in ? 1e-11 : 1e-5;
    if (_deadline == detail::Deadline::max() || found.gap() < proven) _options.cache->add(key, found);
    return found;
  }

 private:
  OperatorSchedule solve(const ScheduleTask& part) const {
    if (_options.engine == ScheduleEngine::built_in)
      return detail::searchComponent(part, _deadline, _options.width);
    return detail::solveComponent(part, _solver, _deadline);
  }

  const ScheduleOptions& _options;
  detail::Deadline _deadline = detail::Deadline::max();
  detail::MipSolver _solver;
};

} // namespace

template <>
const std::vector<std::string>& namesOf<ScheduleEngine>() {
  static const std::vector<std::string> names = {"built-in", "highs", "cbc"};
  return names;
}

std::string engineVersion(ScheduleEngine engine) {
#ifdef PARTITA_HAVE_HIGHS
  if (engine == ScheduleEngine::highs) return "HiGHS " + detail::highsVersion();
#endif
#ifdef PARTITA_HAVE_CBC
  if (engine == ScheduleEngine::cbc) return "CBC " + detail::cbcVersion();
#endif
  return engine == ScheduleEngine::built_in ? "branch and bound" : "";
}

OperatorSchedule scheduleOperators(const ScheduleTask& task, const ScheduleOptions& options) {
  const ComponentScheduler solve(options);
  const std::vector<std::vector<int>> components = componentsOf(task);
  const std::vector<ScheduleTask> parts = partsOf(task, components);
  OperatorSchedule whole;
  whole.operators.resize(task.operators.size());
  for (std::size_t c = 0; c < parts.size(); ++c) {
    const OperatorSchedule part = solve(parts[c]);
    for (std::size_t i = 0; i < part.operators.size(); ++i) {
      ScheduledOperator& op = whole.operators[components[c][i]] = part.operators[i];
      op.start += whole.makespan;
      op.end += whole.makespan;
    }
    whole.makespan += part.makespan;
    whole.lower_bound += part.lower_bound;
  }
  return whole;
}

} // namespace partita
