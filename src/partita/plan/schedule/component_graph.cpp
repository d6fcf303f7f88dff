#include "partita/plan/schedule/component_graph.hpp"

#include <algorithm>

namespace partita::detail {

namespace {

/// Positions of the operators, each after its predecessors.
std::vector<int> topologicalOrder(const ScheduleTask& task) {
  std::vector<std::vector<int>> after(task.operators.size());
  std::vector<int> missing(task.operators.size(), 0), order;
  for (const auto& [from, to] : task.edges) {
    after[from].push_back(to);
    ++missing[to];
  }
  for (std::size_t i = 0; i < missing.size(); ++i)
    if (missing[i] == 0) order.push_back(static_cast<int>(i));
  for (std::size_t next = 0; next < order.size(); ++next)
    for (const int to : after[order[next]])
      if (--missing[to] == 0) order.push_back(to);
  return order;
}

} // namespace

ComponentGraph::ComponentGraph(const ScheduleTask& task)
    : size(task.operators.size()), positions(topologicalOrder(task)), before(size), after(size),
      tails(size, 0.0) {
  std::vector<int> place(size);
  for (std::size_t i = 0; i < size; ++i) {
    place[positions[i]] = static_cast<int>(i);
    operators.push_back(task.operators[positions[i]]);
    _fastest.push_back(std::min(operators[i].latency, operators[i].intra_op_latency));
  }
  for (const auto& [from, to] : task.edges) {
    before[place[to]].push_back(place[from]);
    after[place[from]].push_back(place[to]);
  }
  for (std::size_t i = size; i-- > 0;) {
    for (const int next : after[i]) tails[i] = std::max(tails[i], tails[next]);
    tails[i] += _fastest[i];
  }
  tensor_cores = std::min(task.tensor_cores, usefulCores(true));
  vector_cores = std::min(task.vector_cores, usefulCores(false));
  constexpr int steps = 8;
  for (int step = 0; step <= steps; ++step) {
    const double share = static_cast<double>(step) / steps;
    Energy energy{share / tensor_cores, (1.0 - share) / vector_cores, {}};
    for (std::size_t i = 0; i < size; ++i) {
      const double weight = (uses(i, true) ? energy.tensor : 0.0) + (uses(i, false) ? energy.vector : 0.0);
      energy.least.push_back(std::min(operators[i].intra_op_latency, weight * operators[i].latency));
    }
    energies.push_back(std::move(energy));
  }
}

int ComponentGraph::usefulCores(bool tensor) const {
  int users = 0;
  bool fused = false;
  for (std::size_t i = 0; i < size; ++i) {
    users += uses(i, tensor) ? 1 : 0;
    fused = fused || operators[i].type == CoreType::both;
  }
  return fused ? static_cast<int>(size) : std::max(users, 1);
}

} // namespace partita::detail
